package launch

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// process is one worker with its process group. Its group's number is signalled
// only while the worker, or a member of the group, holds it: numbers are reused.
type process struct {
	rank    int
	cmd     *exec.Cmd
	streams []*stream

	mu     sync.Mutex
	reaped bool
	gone   bool // the group is empty; its number may be another's
}

// start spawns the worker. The calling goroutine must be locked to a thread
// that outlives the worker: PDEATHSIG is delivered when that thread ends.
func (p *process) start(stdout, stderr *os.File) error {
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	p.cmd.SysProcAttr = workerSysProcAttr()
	return p.cmd.Start()
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// wait blocks until the worker has ended, asks its remaining children to end,
// reaps it, and gives its end with the time it was seen.
func (p *process) wait() (Exit, time.Time) {
	var err error
	zombie := awaitExit(p.pid())
	if !zombie {
		err = p.cmd.Wait()
	}
	at := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-p.pid(), syscall.SIGTERM)
	if zombie {
		err = p.cmd.Wait()
	}
	p.reaped = true
	p.check()
	return exitOf(p.rank, p.cmd.ProcessState, err), at
}

// exitOf reads a process's end; one that another part of the program reaped
// (Wait then fails) counts as failed in an unknown way.
func exitOf(rank int, state *os.ProcessState, err error) Exit {
	e := Exit{Rank: rank, Code: -1}
	if state == nil {
		e.Unknown = err
		return e
	}
	e.Code = state.ExitCode()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Signal, e.CoreDumped = ws.Signal(), ws.CoreDump()
	}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok && usage != nil {
		e.PeakMemory = int64(usage.Maxrss) * maxrssUnit //nolint:unconvert // 32 bits on some machines
	}
	return e
}

// signal sends sig to the group, or to the worker alone. A stopped process is
// continued, so that it can act on a request to end. It reports whether the worker lived.
func (p *process) signal(sig syscall.Signal, leader bool) (alive bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	alive = !p.reaped && !hasExited(p.pid())
	switch {
	case leader && alive:
		_ = syscall.Kill(p.pid(), sig)
	case !leader && !p.gone:
		_ = syscall.Kill(-p.pid(), sig)
		if sig != syscall.SIGKILL {
			_ = syscall.Kill(-p.pid(), syscall.SIGCONT)
		}
	}
	return alive
}

// empty reports that neither the worker nor a member of its group is left.
func (p *process) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.check()
	return p.gone
}

func (p *process) check() {
	if !p.reaped || p.gone {
		return
	}
	reapGroup(p.pid())
	p.gone = groupEmpty(syscall.Kill(-p.pid(), 0))
}

// end lets the streams drain and stop.
func (p *process) end() {
	for _, s := range p.streams {
		s.end()
	}
}

// StartError says that a worker could not be started.
type StartError struct {
	Rank    int
	Program string
	Err     error
}

func (e *StartError) Error() string {
	return "launch: cannot start rank " + strconv.Itoa(e.Rank) + " (" + e.Program + "): " + e.Err.Error() + startHint(e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

func startHint(err error) string {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return "; check its name, or give its full path"
	case errors.Is(err, os.ErrPermission):
		return "; check that it is a file with execute permission (chmod +x)"
	case errors.Is(err, syscall.ENOEXEC):
		return "; it is not a program of this system, nor a script with a #! line"
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE):
		return "; the limit of processes, memory or open files is reached (ulimit -a): start fewer workers or raise it"
	}
	return ""
}

// ExitCode is the launcher's exit code for an error of New, Run or FindWorker.
func ExitCode(err error) int {
	var config *ConfigError
	var start *StartError
	var missing *WorkerNotFoundError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &config):
		return ExitUsage
	case errors.As(err, &missing):
		return ExitNotFound
	case !errors.As(err, &start):
		return ExitFailure
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return ExitNotFound
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EISDIR):
		return ExitNotExec
	}
	return ExitFailure
}
