package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"rejoin/trainer"
)

// errStoppedEarly is why a worker that was told to stop ends before it trains.
var errStoppedEarly = errors.New("stopped by SIGTERM before training began: nothing was trained, and nothing needed saving")

// signals turns what the launcher passes on into requests. SIGUSR1 asks for a
// checkpoint; the first SIGTERM for a checkpoint and the end; SIGINT, and a
// second SIGTERM, end this worker at once.
type signals struct {
	requests trainer.Requests
	// ctx ends when the worker is to end at once; waiting ends already when it is
	// to stop, for waits before training, when there is nothing to save.
	ctx, waiting context.Context //nolint:containedctx // the two lives that signals end
	stop         func()
}

// errAtOnce is why a run ends that was told to end at once.
var errAtOnce = errors.New("told to end at once")

// endedAtOnce reports that the worker was told to end at once.
func (s *signals) endedAtOnce() bool { return errors.Is(context.Cause(s.ctx), errAtOnce) }

// handleSignals begins to handle signals until stop is called. Rank 0 says on
// out what they will do.
func handleSignals(rank string, out io.Writer) *signals {
	s := &signals{}
	ctx, end := context.WithCancelCause(context.Background())
	waiting, stopWaiting := context.WithCancelCause(ctx)
	s.ctx, s.waiting = ctx, waiting
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sig := range ch {
			switch {
			case sig == syscall.SIGUSR1:
				s.requests.Save()
			case sig == syscall.SIGTERM && waiting.Err() == nil:
				s.requests.Stop("SIGTERM")
				stopWaiting(errStoppedEarly)
				if rank == "0" {
					fmt.Fprintln(out, "SIGTERM: saving after this step, then leaving; a second one ends at once")
				}
			default:
				end(errAtOnce)
			}
		}
	}()
	s.stop = func() {
		signal.Stop(ch)
		close(ch)
		<-done
		end(nil)
		stopWaiting(nil)
	}
	return s
}
