package harness

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"
)

// interrupter does a job's interruptions, in order, as their lines come.
type interrupter struct {
	todo     []Interruption
	launcher func() int                  // its process id
	worker   func(rank int) (int, error) // a living worker's
	kill     func(pid int, sig syscall.Signal) error

	mu      sync.Mutex
	done    []doneInterruption
	err     error
	frozen  []*time.Timer
	pending sync.WaitGroup // stopped workers that are to go on
}

type doneInterruption struct {
	Interruption
	at time.Duration
}

// see looks whether a line is the one that is waited for.
func (i *interrupter) see(l Line) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err != nil || len(i.todo) == 0 || !strings.Contains(l.Text, i.todo[0].When) {
		return
	}
	next := i.todo[0]
	i.todo = i.todo[1:]
	i.done = append(i.done, doneInterruption{next, l.At})
	i.err = i.perform(next)
}

var signals = map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP, "interrupt": syscall.SIGINT}

func (i *interrupter) perform(in Interruption) error {
	pid := 0
	if in.Rank == nil {
		pid = i.launcher()
	} else {
		var err error
		if pid, err = i.worker(*in.Rank); err != nil {
			return err
		}
	}
	if err := i.kill(pid, signals[in.Do]); err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	if in.Do == "stop" && in.For > 0 {
		i.pending.Add(1)
		timer := time.AfterFunc(time.Duration(in.For), func() {
			defer i.pending.Done()
			_ = i.kill(pid, syscall.SIGCONT) // it may have been ended meanwhile
		})
		i.frozen = append(i.frozen, timer)
	}
	return nil
}

func (in Interruption) String() string {
	if in.Rank == nil {
		return in.Do + " the launcher"
	}
	return fmt.Sprintf("%s rank %d", in.Do, *in.Rank)
}

// finish ends what is pending, and says what could not be done.
func (i *interrupter) finish() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, t := range i.frozen {
		if t.Stop() {
			i.pending.Done()
		}
	}
	i.pending.Wait()
	if i.err != nil {
		return i.err
	}
	var errs []error
	for _, in := range i.todo {
		errs = append(errs, fmt.Errorf("%s: not done, for no line with %q came", in, in.When))
	}
	return errors.Join(errs...)
}
