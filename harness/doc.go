// Package harness runs scenarios: jobs of several workers that train, are
// hurt, and are resumed, with all that must come of it. `launch harness` is its
// command.
//
// It promises that a scenario passes only when every expectation was looked at
// and met; that one which cannot run here is reported as skipped, with the
// reason; that each has a directory of its own and an end in time; that no worker
// of it lives on; and that what went wrong is said by what it is about: the rank,
// the file, the tensor, the learning rate, the rows.
//
// A scenario is a small YAML file, see [Scenario]. Its jobs are real ones, run
// through the launch program, of Rejoin or of any command line. The package
// knows checkpoints (package ckpt) and processes, and nothing of how training
// is done.
//
// [Bisect] finds the first place where two finished runs part.
package harness
