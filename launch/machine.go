package launch

import (
	"syscall"
	"time"
)

// policy holds the machine's times; see Config.
type policy struct {
	grace          time.Duration
	killAfter      time.Duration
	interruptAfter time.Duration
	abandonAfter   time.Duration // from SIGKILL until a process counts as impossible to end
	repeatAfter    time.Duration // a second shutdown signal within it is the first one's echo
	peerFailed     []int
	stoppedCode    int
}

// inGoodOrder reports that a worker finished, or stopped as it was asked to.
func (p policy) inGoodOrder(e Exit) bool { return e.OK() || p.stopped(e) }

func (p policy) stopped(e Exit) bool {
	return p.stoppedCode != 0 && e.Signal == 0 && e.Code == p.stoppedCode && e.Declared == ""
}

// stage is what the job as a whole is doing.
type stage int

const (
	stageRunning  stage = iota
	stageGrace          // a rank failed; the others may end on their own
	stageStopping       // the others were asked to end
	stageKilling        // everything was sent SIGKILL
)

// slotStage is what the processes of one slot are doing.
type slotStage int

const (
	slotLive      slotStage = iota // the worker runs
	slotLingering                  // the worker ended; processes it started may run on
	slotGone                       // none of its processes is left
	slotLeft                       // they outlived SIGKILL and are given up
)

// slot is one rank's process group, or, past the ranks, the processes that left
// their worker's group.
type slot struct {
	stage      slotStage
	pid        int
	sent       syscall.Signal
	declared   string
	declaredAt time.Duration
	deadline   time.Duration // while lingering: when to kill; once killed: when to give up
	killed     bool
}

// action tells the I/O around the machine to signal the processes of a slot.
type action struct {
	slot   int
	sig    syscall.Signal
	leader bool // only the worker itself, not its children
}

// machine decides whom to signal when. Times are durations from the job's
// start; it reads no clock and does no I/O. Invariants:
//
//  1. The stage only grows.
//  2. In stageGrace and stageStopping a deadline is set, and when it passes the stage grows.
//  3. A lingering or killed slot has a deadline of its own, and when it passes
//     the slot is killed or left.
//  4. exits has one entry for every rank whose slot is no longer live.
type machine struct {
	policy
	stage       stage
	deadline    time.Duration
	slots       []slot // by rank, then the escaped processes
	exits       []Exit
	interrupted syscall.Signal // asked to stop before anything failed
	signalledAt time.Duration
	signalled   bool
}

// newMachine starts with every rank live and no process escaped.
func newMachine(nproc int, p policy) *machine {
	m := &machine{policy: p, slots: make([]slot, nproc+1)}
	m.slots[nproc].stage = slotGone
	return m
}

func (m *machine) nproc() int { return len(m.slots) - 1 }

func (m *machine) started(rank, pid int) { m.slots[rank].pid = pid }

// exited takes a worker's end. Its exit's Rank, After and status are set.
func (m *machine) exited(e Exit) []action {
	s := &m.slots[e.Rank]
	e.PID, e.Sent, e.Declared = s.pid, s.sent, s.declared
	failed := !m.inGoodOrder(e)
	e.Collateral = failed && (m.stage != stageRunning || e.Sent != 0)
	m.exits = append(m.exits, e)
	acts := m.linger(e.Rank, e.After)
	if failed && m.stage == stageRunning {
		return append(acts, m.fail(e.After)...)
	}
	return append(acts, m.skipGrace(e.After)...)
}

// notSent takes back a signal that came after the worker's end.
func (m *machine) notSent(i int) {
	if m.slots[i].stage == slotLive {
		m.slots[i].sent = 0
	}
}

// linger starts the end of what a slot's leader left behind, which was sent SIGTERM.
func (m *machine) linger(i int, now time.Duration) []action {
	s := &m.slots[i]
	s.stage, s.deadline, s.killed = slotLingering, now+m.killAfter, false
	switch m.stage {
	case stageStopping:
		s.deadline = min(s.deadline, m.deadline)
	case stageKilling:
		return m.killSlot(i, now)
	case stageRunning, stageGrace:
	}
	return nil
}

func (m *machine) killSlot(i int, now time.Duration) []action {
	s := &m.slots[i]
	s.sent, s.killed, s.deadline = syscall.SIGKILL, true, now+m.abandonAfter
	return []action{{slot: i, sig: syscall.SIGKILL}}
}

// groupGone takes the news that no process of a slot is left.
func (m *machine) groupGone(i int) {
	if m.slots[i].stage == slotLingering {
		m.slots[i].stage = slotGone
	}
}

// escaped takes the news that processes live which left their worker's group.
func (m *machine) escaped(now time.Duration) []action {
	i := m.nproc()
	acts := m.linger(i, now)
	if len(acts) > 0 {
		return acts
	}
	return []action{{slot: i, sig: syscall.SIGTERM}}
}

// declare takes the caller's word that a rank failed though its process lives.
func (m *machine) declare(rank int, reason string, now time.Duration) []action {
	s := &m.slots[rank]
	if s.stage != slotLive || s.declared != "" {
		return nil
	}
	s.declared, s.declaredAt = reason, now
	if m.stage == stageRunning {
		return m.fail(now)
	}
	return m.skipGrace(now)
}

// fail takes the first failure.
func (m *machine) fail(now time.Duration) []action {
	if m.grace <= 0 {
		return m.stop(syscall.SIGTERM, m.killAfter, now)
	}
	m.stage, m.deadline = stageGrace, now+m.grace
	return m.skipGrace(now)
}

// skipGrace ends the grace when none but declared ranks are left to use it.
func (m *machine) skipGrace(now time.Duration) []action {
	if m.stage != stageGrace {
		return nil
	}
	live := false
	for i := range m.slots {
		if m.slots[i].stage == slotLive {
			live = true
			if m.slots[i].declared == "" {
				return nil
			}
		}
	}
	if !live {
		return nil
	}
	return m.stop(syscall.SIGTERM, m.killAfter, now)
}

// stop asks every live worker to end; one that was declared failed is killed.
func (m *machine) stop(sig syscall.Signal, after, now time.Duration) []action {
	m.stage, m.deadline = stageStopping, now+after
	var acts []action
	for i := range m.slots {
		s := &m.slots[i]
		switch {
		case s.stage == slotLingering:
			s.deadline = min(s.deadline, m.deadline)
		case s.stage != slotLive:
		case s.declared != "":
			acts = append(acts, m.killSlot(i, now)...)
		default:
			s.sent = sig
			acts = append(acts, action{slot: i, sig: sig})
		}
	}
	return acts
}

func (m *machine) kill(now time.Duration) []action {
	m.stage = stageKilling
	var acts []action
	for i := range m.slots {
		if st := m.slots[i].stage; st == slotLive || st == slotLingering {
			acts = append(acts, m.killSlot(i, now)...)
		}
	}
	return acts
}

// signal takes a signal sent to the launcher.
func (m *machine) signal(sig syscall.Signal, now time.Duration) []action {
	if sig == syscall.SIGUSR1 || sig == syscall.SIGUSR2 {
		return m.forward(sig)
	}
	if m.signalled {
		if m.stage == stageKilling || now-m.signalledAt < m.repeatAfter {
			return nil
		}
		return m.kill(now)
	}
	m.signalled, m.signalledAt = true, now
	after := m.killAfter
	if sig == syscall.SIGINT {
		after = m.interruptAfter
	}
	switch m.stage {
	case stageRunning:
		if m.anyLive() {
			m.interrupted = sig
		}
		return m.stop(sig, after, now)
	case stageGrace:
		return m.stop(sig, after, now)
	case stageStopping:
		m.deadline = min(m.deadline, now+after)
	case stageKilling:
	}
	return nil
}

func (m *machine) forward(sig syscall.Signal) []action {
	var acts []action
	for i := range m.slots {
		if m.slots[i].stage == slotLive {
			acts = append(acts, action{slot: i, sig: sig, leader: true})
		}
	}
	return acts
}

func (m *machine) anyLive() bool {
	for i := range m.slots {
		if m.slots[i].stage == slotLive {
			return true
		}
	}
	return false
}

// tick acts on the deadlines that have passed.
func (m *machine) tick(now time.Duration) []action {
	var acts []action
	if m.waiting() && now >= m.deadline {
		if m.stage == stageGrace {
			acts = m.stop(syscall.SIGTERM, m.killAfter, now)
		} else {
			acts = m.kill(now)
		}
	}
	for i := range m.slots {
		s := &m.slots[i]
		switch {
		case !s.pending() || now < s.deadline:
		case s.killed:
			m.giveUp(i, now)
		default:
			acts = append(acts, m.killSlot(i, now)...)
		}
	}
	return acts
}

// waiting reports that the job's own deadline counts.
func (m *machine) waiting() bool { return m.stage == stageGrace || m.stage == stageStopping }

// pending reports that the slot's own deadline counts.
func (s *slot) pending() bool {
	return s.stage == slotLingering || s.stage == slotLive && s.killed
}

// giveUp stops waiting for processes that SIGKILL did not end.
func (m *machine) giveUp(i int, now time.Duration) {
	s := &m.slots[i]
	if s.stage == slotLive {
		m.exits = append(m.exits, Exit{
			Rank: i, PID: s.pid, Code: -1, Left: true, After: now,
			Sent: s.sent, Declared: s.declared, Collateral: true,
		})
	}
	s.stage = slotLeft
}

// next gives the earliest deadline.
func (m *machine) next() (at time.Duration, ok bool) {
	if m.waiting() {
		at, ok = m.deadline, true
	}
	for i := range m.slots {
		if s := &m.slots[i]; s.pending() && (!ok || s.deadline < at) {
			at, ok = s.deadline, true
		}
	}
	return at, ok
}

// lingering reports that some slot's end must be looked for.
func (m *machine) lingering() bool {
	for i := range m.slots {
		if m.slots[i].stage == slotLingering {
			return true
		}
	}
	return false
}

// done reports that nothing is left to wait for.
func (m *machine) done() bool {
	for i := range m.slots {
		if st := m.slots[i].stage; st == slotLive || st == slotLingering {
			return false
		}
	}
	return true
}
