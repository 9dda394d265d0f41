package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	// pollEvery is how often the end of a dead worker's children is looked for.
	pollEvery = 10 * time.Millisecond
	// scanEvery is how often all processes are searched for escaped ones.
	scanEvery = 50 * time.Millisecond
	// stallAfter is how long the reader of the output may take nothing once all
	// processes have ended; stallInterrupted, after a signal to the launcher.
	stallAfter       = 10 * time.Second
	stallInterrupted = 200 * time.Millisecond
)

// watch feeds the machine with what happens, and does what it says, until
// nothing is left to wait for.
func (j *job) watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	cancelled := ctx.Done()
	for !j.settled() {
		j.setTimer(timer)
		select {
		case seen := <-j.exits:
			j.ended(seen)
		case sig, ok := <-j.cfg.Signals:
			j.signal(sig, ok)
		case <-cancelled:
			cancelled = nil
			j.signal(syscall.SIGTERM, true)
		case <-j.agent.wake:
			j.declare()
		case <-timer.C:
			j.perform(j.m.tick(j.now()))
		}
		j.poll()
	}
}

func (j *job) setTimer(timer *time.Timer) {
	wait := time.Hour
	if at, ok := j.m.next(); ok {
		wait = max(0, at-j.now())
	}
	if j.m.lingering() {
		wait = min(wait, pollEvery)
	}
	timer.Reset(wait)
}

// ended tells the machine of an exit; declarations that came before it go first.
func (j *job) ended(seen seenExit) {
	j.declare()
	seen.exit.After = seen.at.Sub(j.began)
	acts := j.m.exited(seen.exit)
	if j.cfg.OnExit != nil {
		exit := j.m.exits[len(j.m.exits)-1]
		j.calls <- func() { j.cfg.OnExit(exit) }
	}
	j.perform(acts)
}

// signal takes a signal from the channel, or the channel's end.
func (j *job) signal(sig os.Signal, ok bool) {
	if !ok {
		j.cfg.Signals = nil
	}
	if s, ok := sig.(syscall.Signal); ok {
		j.perform(j.m.signal(s, j.now()))
	}
}

func (j *job) declare() {
	for _, d := range j.agent.takeDeclared() {
		if d.rank >= len(j.procs) {
			continue
		}
		if state := processState(j.procs[d.rank].pid()); state != "" {
			d.reason += " (its process was " + state + ")"
		}
		j.perform(j.m.declare(d.rank, d.reason, j.now()))
	}
}

// perform sends the signals that the machine asks for.
func (j *job) perform(acts []action) {
	for _, a := range acts {
		switch {
		case a.slot == j.m.nproc():
			signalEscaped(j.escaped, a.sig)
		case a.slot >= len(j.procs):
		case a.leader && !catches(j.procs[a.slot].pid(), a.sig):
			j.stderr.write(fmt.Appendf(nil, "launch: %s was not passed on to rank %d (pid %d): it does not handle it and would be killed\n",
				signalName(a.sig), a.slot, j.procs[a.slot].pid()))
		default:
			if !j.procs[a.slot].signal(a.sig, a.leader) {
				j.m.notSent(a.slot)
			}
		}
	}
}

// poll looks whether the processes that workers left behind have ended.
func (j *job) poll() {
	for i, p := range j.procs {
		if j.m.slots[i].stage == slotLingering && p.empty() {
			j.m.groupGone(i)
			j.guard.remove(p.pid())
			p.end()
		}
	}
	i := j.m.nproc()
	if j.m.slots[i].stage == slotLingering && j.now()-j.scannedAt >= scanEvery {
		if j.scan(); len(j.escaped) == 0 {
			j.m.groupGone(i)
		} else if j.m.slots[i].killed { // some may have been forked since
			signalEscaped(j.escaped, syscall.SIGKILL)
		}
	}
}

// settled reports that every process has ended or is given up. The search for
// processes that left their worker's session comes last.
func (j *job) settled() bool {
	if !j.m.done() {
		return false
	}
	if j.m.slots[j.m.nproc()].stage == slotLeft {
		return true
	}
	if j.scan(); len(j.escaped) == 0 {
		return true
	}
	j.perform(j.m.escaped(j.now()))
	return false
}

// scan finds the processes that carry this job's mark and are not a worker
// that is given up already.
func (j *job) scan() {
	found := append(findMarked(j.cookie), reapEscaped(j.escaped)...)
	slices.Sort(found)
	j.escaped = slices.DeleteFunc(slices.Compact(found), func(pid int) bool {
		for _, s := range j.m.slots {
			if s.stage == slotLeft && s.pid == pid {
				return true
			}
		}
		return false
	})
	j.scannedAt = j.now()
}

// ErrOutputStalled says that the reader of the launcher's output took nothing
// for so long after the workers' end that the rest was given up.
var ErrOutputStalled = errors.New("launch: the reader of the output stopped reading; what the workers wrote last is lost")

// drain waits until all output is written, or its reader is found stuck.
// In that case the goroutine in the stuck Write ends with that Write.
func (j *job) drain() error {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for _, p := range j.procs {
			p.end()
			for _, s := range p.streams {
				<-s.done
			}
		}
	}()
	for {
		limit := stallAfter
		if j.m.signalled {
			limit = stallInterrupted
		}
		writes := j.stdout.writes.Load() + j.stderr.writes.Load()
		select {
		case <-finished:
			return j.outputErr()
		case sig, ok := <-j.cfg.Signals:
			j.signal(sig, ok)
		case <-time.After(limit + 2*drainIdle):
			if j.stdout.writes.Load()+j.stderr.writes.Load() == writes {
				return ErrOutputStalled
			}
		}
	}
}

// outputErr joins what went wrong with the sinks and the log files.
func (j *job) outputErr() error {
	errs := []error{j.stdout.err, j.stderr.err}
	for _, p := range j.procs {
		for _, s := range p.streams {
			errs = append(errs, s.fileErr)
		}
	}
	return errors.Join(errs...)
}
