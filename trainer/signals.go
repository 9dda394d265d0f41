package trainer

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// Requests is what a person asks of a run under way; its methods may be called
// from any goroutine. All ranks act on it after the same step: it travels with
// the gradients. The zero value is ready.
type Requests struct {
	save atomic.Bool
	stop atomic.Pointer[string]
}

// Save asks for a checkpoint after the step under way, after which the run goes
// on. Rank 0's request counts; other ranks' are not looked at, so that one
// signal, which reaches the ranks at different times, makes one checkpoint.
func (q *Requests) Save() { q.save.Store(true) }

// Stop asks the run to save after the step under way and to leave with a
// *[StoppedError] on every rank. Any rank's request counts. The first reason,
// such as "SIGTERM", is kept.
func (q *Requests) Stop(reason string) { q.stop.CompareAndSwap(nil, &reason) }

func (q *Requests) reason() string {
	if reason := q.stop.Load(); reason != nil {
		return *reason
	}
	return "a signal to another rank"
}

// StoppedError says that a run was asked to stop, and did: its state is saved.
type StoppedError struct {
	Reason         string
	Step, MaxSteps int
	Checkpoint     string
	WorldSize      int
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("stopped by %s after step %d of %d, which is saved; to go on: launch --nproc %d resume %s",
		e.Reason, e.Step, e.MaxSteps, e.WorldSize, shellWord(e.Checkpoint))
}

// shellWord spells a path so that a shell takes it for one word.
func shellWord(path string) string {
	plain := strings.IndexFunc(path, func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%=", c)
	}) < 0
	if plain && path != "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// wishes are what the ranks tell each other with each step's gradients.
type wishes struct {
	save   bool // write a checkpoint after this step
	stop   bool // and leave
	settle bool // rank 0 has an outcome of a background save that all must hear
}

// numWishes is how many elements wishes take.
const numWishes = 3

// put writes wishes as numbers that survive a mean over ranks: what any rank
// wishes for is above 0 in it.
func (w wishes) put(to []float32) {
	for i, wish := range []bool{w.save, w.stop, w.settle} {
		to[i] = 0
		if wish {
			to[i] = 1
		}
	}
}

func wishesIn(from []float32) wishes {
	return wishes{save: from[0] > 0, stop: from[1] > 0, settle: from[2] > 0}
}

// wishes are this rank's, for the step under way. A request to save is taken
// from its place: one that comes later is another.
func (r *run) wishes() wishes {
	return wishes{
		save:   r.group.Rank() == 0 && r.requests.save.Swap(false),
		stop:   r.requests.stop.Load() != nil,
		settle: r.saver.failed(),
	}
}
