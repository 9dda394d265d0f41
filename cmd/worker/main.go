// Worker is one rank of a job. The launcher starts it with torchrun's
// environment; it joins the job's rendezvous, forms the process group and trains.
//
// Exit codes: 0 done; 1 this rank failed; 3 another rank failed and this one
// stopped because of it; 2 it was not started by launch; 75 it was asked to stop
// (SIGTERM), and the run's state is saved: a resume goes on from there; 130 it was
// told to end at once.
package main

import (
	"errors"
	"fmt"
	"os"

	"rejoin/rendezvous"
	"rejoin/trainer"
)

// Exit codes, beside 0.
const (
	exitFailed     = 1
	exitNotStarted = 2
	exitPeerFailed = 3
	exitStopped    = 75 // EX_TEMPFAIL of sysexits.h
	// exitInterrupted is the shell's code for SIGINT; the launcher's own is the
	// code of the signal it got.
	exitInterrupted = 130
)

func main() {
	s := handleSignals(os.Getenv("RANK"), os.Stderr)
	code := run(s)
	s.stop()
	os.Exit(code)
}

func run(s *signals) int {
	env, err := readEnvironment(os.LookupEnv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return exitNotStarted
	}
	err = work(s, env)
	if err != nil && s.endedAtOnce() {
		if env.rank == 0 {
			fmt.Fprintln(os.Stderr, endedAtOnce(err))
		}
		return exitInterrupted
	}
	return report(err, env.rank)
}

// endedAtOnce says where a run was when it was told to end at once.
func endedAtOnce(err error) string {
	where := "before training began"
	if in := (*trainer.StepError)(nil); errors.As(err, &in) {
		where = fmt.Sprintf("in step %d; what was trained since the last checkpoint is not saved", in.Step)
	}
	return "ended at once, " + where
}

// report prints what this rank has to say about its end, and returns its exit code.
func report(err error, rank int) int {
	var agreed *trainer.RankError
	var stopped *trainer.StoppedError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &stopped):
		if rank == 0 {
			fmt.Fprintln(os.Stdout, stopped)
		}
		return exitStopped
	case errors.As(err, &agreed):
		text := agreed.Report(rank)
		if text == "" {
			return exitPeerFailed // another rank says it for all
		}
		fmt.Fprintln(os.Stderr, text)
		return exitFailed
	case isPeerFailure(err, rank):
		fmt.Fprintln(os.Stderr, whereStopped(err))
		return exitPeerFailed
	default:
		fmt.Fprintln(os.Stderr, "error:", err)
		return exitFailed
	}
}

// isPeerFailure tells a failure of another rank from one of this rank.
func isPeerFailure(err error, rank int) bool {
	var named interface{ FailedRank() int }
	return errors.As(err, &named) && named.FailedRank() != rank
}

// whereStopped says where this rank was when another one failed, and why that one did.
func whereStopped(err error) string {
	text := "stopped"
	in := (*trainer.StepError)(nil)
	if errors.As(err, &in) {
		text = fmt.Sprintf("stopped in step %d", in.Step)
	}
	if peer := (*rendezvous.PeerFailedError)(nil); errors.As(err, &peer) {
		err = peer
	} else if in != nil {
		err = in.Err
	}
	return fmt.Sprintf("%s: %v", text, err)
}
