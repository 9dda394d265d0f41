// Package hf reads and writes a checkpoint-N directory: the layout of the
// Hugging Face Trainer, every file of it, and Rejoin's manifest.json beside it.
//
// [Open] reads one, [Latest] chooses one, [Begin] writes one, [Rotate] removes
// old ones.
//
// It promises:
//
//   - A final name is always a whole checkpoint, the old one or the new one,
//     whatever fails or dies in between.
//   - What is wrong with a checkpoint is a typed error that names the file, the
//     cause and the next step. Nothing in a file is run.
//   - Equal contents are written as equal bytes, and the real Trainer reads them.
//     trainer_state.json is byte for byte as the Trainer writes it.
//
// It does not decide when to save, how many checkpoints to keep or what a
// missing random state becomes, and it knows no network: ranks give their
// random states to the one rank that writes.
package hf
