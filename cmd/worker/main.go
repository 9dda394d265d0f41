// Worker is one rank of a job. The launcher starts it with torchrun's
// environment; it joins the job's rendezvous, forms the process group and trains.
//
// Exit codes: 0 done; 1 this rank failed; 3 another rank failed and this one
// stopped because of it; 2 it was not started by launch.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"rejoin/rendezvous"
	"rejoin/trainer"
)

// Exit codes, beside 0.
const (
	exitFailed     = 1
	exitNotStarted = 2
	exitPeerFailed = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx)
	stop()
	os.Exit(code)
}

func run(ctx context.Context) int {
	env, err := readEnvironment(os.LookupEnv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return exitNotStarted
	}
	err = work(ctx, env)
	return report(err, env.rank)
}

// report prints what this rank has to say about its end, and returns its exit code.
func report(err error, rank int) int {
	var agreed *trainer.RankError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &agreed):
		text := agreed.Report(rank)
		if text == "" {
			return exitPeerFailed // another rank says it for all
		}
		fmt.Fprintln(os.Stderr, text)
		return exitFailed
	case isPeerFailure(err, rank):
		fmt.Fprintln(os.Stderr, stopped(err))
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

// stopped says where this rank was when another one failed, and why that one did.
func stopped(err error) string {
	text := "stopped"
	if in := (*trainer.StepError)(nil); errors.As(err, &in) {
		text = fmt.Sprintf("stopped in step %d", in.Step)
	}
	if peer := (*rendezvous.PeerFailedError)(nil); errors.As(err, &peer) {
		err = peer
	}
	return fmt.Sprintf("%s: %v", text, err)
}
