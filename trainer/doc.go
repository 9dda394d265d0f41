// Package trainer trains a model over N ranks and rejoins a run where it
// stopped: it turns a checkpoint and arguments into a [Job], rebuilds the state
// on every rank, runs the loop and saves.
//
// It promises that a resumed run goes on exactly as the uninterrupted one would
// have: the same rows on the same ranks, the same learning rates, the same
// arithmetic in the same order as the Hugging Face Trainer (transformers 5.12),
// and that all ranks agree on what they loaded before the first step.
//
// Evaluation, the best model, early stopping and what follows an update in which
// order are the Trainer's too (transformers 5.24). Where the Trainer's own resume
// would lose or repeat something, a run here goes on as if it had never stopped;
// docs/resume.md lists these differences. A loss or gradient that is not finite
// is met alike on all ranks, and never hidden in the log.
//
// It knows the process group only through [Group], starts no process and opens
// no connection.
package trainer
