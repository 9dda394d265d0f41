package launch

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// Agent runs the workers of one attempt. Make one with [New].
type Agent struct {
	cfg Config
	ran atomic.Bool

	mu       sync.Mutex
	declared []declaration
	wake     chan struct{} // capacity 1: declared is not empty
}

// declaration is the caller's word that a rank failed.
type declaration struct {
	rank   int
	reason string
}

// New checks cfg and finds its program, and starts nothing.
func New(cfg Config) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath(cfg.Program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, &StartError{Program: cfg.Program, Err: lookPathCause(err)}
	}
	cfg.Program = path
	return &Agent{cfg: cfg, wake: make(chan struct{}, 1)}, nil
}

// lookPathCause drops exec.Error's repetition of the program's name.
func lookPathCause(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	return err
}

// RunID is the job's id, chosen by New if the Config had none.
func (a *Agent) RunID() string { return a.cfg.RunID }

// Fail declares that a rank has failed though its process may live, for example
// because it no longer answers the rendezvous. The other workers get the
// grace, then all are ended, the rank itself with SIGKILL, and the job's exit
// code is ExitFrozen unless the rank's process turns out to have ended by itself.
// It may be called at any time from any goroutine; a rank that is unknown, has ended
// or was declared before is left as it is.
func (a *Agent) Fail(rank int, reason string) {
	if rank < 0 || rank >= a.cfg.NProc {
		return
	}
	if reason == "" {
		reason = "declared failed"
	}
	a.mu.Lock()
	a.declared = append(a.declared, declaration{rank, reason})
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *Agent) takeDeclared() []declaration {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.declared
	a.declared = nil
	return taken
}

// ErrRan is returned by a second Run of an Agent.
var ErrRan = errors.New("launch: this agent has run already; make another with New")

// Run starts the workers and returns when all of them, and what they started,
// have ended. The end of ctx counts as SIGTERM. The report is there whenever
// the workers were started; err says why they could not be, and then whatever
// had been started has ended too.
//
// While Run is going the process is a subreaper on Linux: orphaned descendants,
// of other children too, become its children.
func (a *Agent) Run(ctx context.Context) (*Report, error) {
	if a.ran.Swap(true) {
		return nil, ErrRan
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("launch: not started: %w", context.Cause(ctx))
	}
	j, err := newJob(a)
	if err != nil {
		return nil, err
	}
	defer j.close()
	startErr := j.spawn()
	if startErr != nil {
		j.perform(j.m.kill(j.now()))
	}
	j.watch(ctx)
	outputErr := j.drain()
	if startErr != nil {
		return nil, startErr
	}
	return j.report(outputErr), nil
}

// Run makes an Agent of cfg and runs it.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	a, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return a.Run(ctx)
}
