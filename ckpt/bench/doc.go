// Package bench measures how fast checkpoints are loaded and saved, and in how
// much memory, beside torch.load and torch.save and a plain write of the same bytes.
//
// The checkpoint is a training script's: a model's weights and Adam's two
// moments, all float32, generated in a temporary directory that is removed. A
// load ends with every element in memory of the reader's own; an opening reads
// only what the file says of itself. Files are in the page cache and nothing is
// synced, so what is measured is the program and not the disk. All that is
// compared takes turns, and the fastest round of each counts.
//
// It judges nothing: it says what was measured, and the ratios of it.
package bench
