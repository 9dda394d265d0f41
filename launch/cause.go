package launch

import (
	"cmp"
	"slices"
	"syscall"
	"time"
)

// verdict is what the ends of all workers add up to.
type verdict struct {
	exits []Exit // by time of end, Collateral set
	first int    // index in exits of the first failure; -1: none
	// frozen: the first failure was declared and its process did not end by itself.
	frozen bool
}

// judge finds the rank that failed first. A rank counts as failed when it ended
// unsuccessfully before the launcher signalled it, at that time, or when it was
// declared failed, at the time of the declaration. An exit with a code of
// peerFailed accuses another rank, so it is the first failure only when nothing
// else failed and the job was not told to stop: a rank may see others leave
// before it is told itself. A declared rank whose process ended by itself is judged by how it ended.
// outOfMemory tells that the kernel killed for want of memory meanwhile: a rank
// that got a SIGKILL then is the first failure, as those that lived on may have
// been too slow to answer before.
func judge(m *machine, outOfMemory bool) verdict {
	v := verdict{exits: slices.Clone(m.exits), first: -1}
	slices.SortStableFunc(v.exits, func(a, b Exit) int { return cmp.Compare(a.After, b.After) })
	var best failure
	for i, e := range v.exits {
		f, ok := failureOf(m, e)
		f.oom = outOfMemory && e.endedItself() && e.Signal == syscall.SIGKILL
		if ok && (v.first < 0 || f.before(best)) {
			v.first, best = i, f
		}
	}
	if best.accusing && m.interrupted != 0 {
		v.first, best = -1, failure{} // it means the ranks that were told to stop
	}
	v.frozen = best.frozen
	for i := range v.exits {
		e := &v.exits[i]
		e.Collateral = i != v.first && (e.Code != 0 || e.Sent != 0)
	}
	return v
}

// failure is a candidate for the first one.
type failure struct {
	at       time.Duration
	accusing bool // says that another rank failed
	crashed  bool // killed by a signal that no peer's failure brings about
	frozen   bool
	oom      bool // killed for want of memory, by all that is known
}

func (f failure) before(g failure) bool {
	if f.accusing != g.accusing {
		return g.accusing
	}
	if f.oom != g.oom {
		return f.oom
	}
	if f.crashed != g.crashed && (f.at-g.at).Abs() < crashWindow {
		return f.crashed
	}
	return f.at < g.at
}

// crashWindow is how far apart two ends may be seen in the wrong order. A worker
// can end some microseconds after its connections broke, and its end is
// noticed some milliseconds later on a loaded machine.
const crashWindow = 100 * time.Millisecond

// crashes are the signals that nobody but the process itself, or the kernel,
// brings about. SIGABRT is not one: C++ programs end with it when a connection breaks.
var crashes = []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGFPE}

func failureOf(m *machine, e Exit) (failure, bool) {
	switch {
	case e.endedItself() && e.Code != 0 && !m.stopped(e):
		at := e.After
		if e.Declared != "" {
			at = min(at, m.slots[e.Rank].declaredAt)
		}
		accusing := e.Signal == 0 && slices.Contains(m.peerFailed, e.Code)
		return failure{at: at, accusing: accusing, crashed: slices.Contains(crashes, e.Signal)}, true
	case e.Declared != "":
		return failure{at: m.slots[e.Rank].declaredAt, frozen: true}, true
	}
	return failure{}, false
}

// exitCode is the job's: see the package comment.
func (v verdict) exitCode(p policy, interrupted syscall.Signal) int {
	if code, ok := v.orderly(p); ok {
		return code
	}
	switch {
	case v.frozen:
		return ExitFrozen
	case v.first >= 0:
		return v.exits[v.first].code()
	case interrupted != 0:
		return exitSignalBase + int(interrupted)
	}
	return 0
}

// orderly is the exit code of a job in which every worker finished or stopped
// as it was asked to; false if one did not, or workers have no such code.
func (v verdict) orderly(p policy) (code int, ok bool) {
	if p.stoppedCode == 0 {
		return 0, false
	}
	for _, e := range v.exits {
		if !p.inGoodOrder(e) {
			return 0, false
		}
		if p.stopped(e) {
			code = p.stoppedCode
		}
	}
	return code, true
}
