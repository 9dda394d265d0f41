// Package trainer trains a model over N ranks and rejoins a run where it
// stopped: it turns a checkpoint and arguments into a [Job], rebuilds the state
// on every rank, runs the loop and saves.
//
// It promises that a resumed run goes on exactly as the uninterrupted one would
// have: the same rows on the same ranks, the same learning rates, the same
// arithmetic in the same order as the Hugging Face Trainer (transformers 5.12),
// and that all ranks agree on what they loaded before the first step.
//
// It knows the process group only through [Group], starts no process and opens
// no connection.
package trainer
