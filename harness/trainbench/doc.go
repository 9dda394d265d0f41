// Package trainbench races `launch train` against DistributedDataParallel over
// gloo: the same model, batch and optimizer, the same number of worker processes
// on the same CPUs, taking turns.
//
// Both are programs to it, timed from outside by the clock on the wall: a short
// run and a long one, whose difference is the time of the steps alone.
//
// It does not judge accuracy; the numbers that are trained on are random.
package trainbench
