package rendezvous

import (
	"fmt"
	"time"
)

// presence is where a rank stands.
type presence uint8

const (
	absent presence = iota // has not joined yet
	present
	left // has said that it finished well
)

type rankState struct {
	presence
	pid      int
	addr     string
	lastSeen time.Time
}

// suspicion is something that went wrong and may become the job's failure. It
// is sure, or waits for a better reason until due.
type suspicion struct {
	rank     int
	reason   string
	at, due  time.Time
	missing  []int
	reported bool // by the rank itself
}

// core is the decisions of a rendezvous, without I/O or clock: every call
// brings the time. Its invariants:
//
//  1. complete is set once, when every rank has been present at some time.
//  2. failure is set once, from the earliest suspicion.
//  3. After failure, nothing else changes.
type core struct {
	runID      string
	generation int
	joinUntil  time.Time
	joinTime   time.Duration
	silence    time.Duration // after which a rank counts as frozen
	grace      time.Duration // for a broken connection to be explained

	ranks    []rankState
	suspects []suspicion // by time
	complete bool
	failure  *Failure
	timedOut bool // failure is that ranks never joined
	lastTick time.Time
}

func newCore(cfg ServerConfig, now time.Time) *core {
	return &core{
		runID: cfg.RunID, generation: cfg.Generation,
		joinUntil: now.Add(cfg.JoinTimeout), joinTime: cfg.JoinTimeout,
		silence: cfg.HeartbeatTimeout, grace: suspicionGrace,
		ranks: make([]rankState, cfg.WorldSize), lastTick: now,
	}
}

// hello lets a rank in, or says why not: *StaleJobError, *WorldError,
// *DuplicateRankError, *JoinTimeoutError or *PeerFailedError.
func (c *core) hello(now time.Time, m Member) error {
	switch {
	case m.RunID != c.runID || m.Generation != c.generation:
		return &StaleJobError{RunID: m.RunID, ServerRunID: c.runID, Generation: m.Generation, ServerGeneration: c.generation}
	case m.Rank < 0 || m.Rank >= len(c.ranks) || m.WorldSize != 0 && m.WorldSize != len(c.ranks):
		return &WorldError{m.Rank, m.WorldSize, len(c.ranks)}
	case c.failure != nil:
		return c.failureError()
	}
	r := &c.ranks[m.Rank]
	switch r.presence {
	case present:
		return &DuplicateRankError{m.Rank, m.PID, r.pid}
	case left:
		return &StaleJobError{RunID: m.RunID, ServerRunID: c.runID, Generation: m.Generation, ServerGeneration: c.generation, Ended: true}
	case absent:
	}
	*r = rankState{present, m.PID, m.Addr, now}
	c.complete = c.complete || len(c.missing()) == 0
	return nil
}

// failureError is what a rank gets that asks to join a failed job.
func (c *core) failureError() error {
	if c.timedOut {
		return &JoinTimeoutError{c.failure.Missing, c.joinTime}
	}
	return &PeerFailedError{*c.failure}
}

// missing returns the ranks that have not joined.
func (c *core) missing() []int {
	var out []int
	for i, r := range c.ranks {
		if r.presence == absent {
			out = append(out, i)
		}
	}
	return out
}

// finished reports whether every rank has left well.
func (c *core) finished() bool {
	for _, r := range c.ranks {
		if r.presence != left {
			return false
		}
	}
	return true
}

// heartbeat notes a sign of life.
func (c *core) heartbeat(now time.Time, rank int) { c.ranks[rank].lastSeen = now }

// leave notes that a rank has finished well.
func (c *core) leave(now time.Time, rank int) {
	c.heartbeat(now, rank)
	c.ranks[rank].presence = left
}

// report notes that a rank says it is failing.
func (c *core) report(now time.Time, rank int, reason string) {
	c.heartbeat(now, rank)
	c.suspects = append(c.suspects, suspicion{rank: rank, reason: reason, at: now, due: now, reported: true})
	c.resolve(now)
}

// broken notes that a rank's connection ended without a goodbye.
func (c *core) broken(now time.Time, rank int, reason string) {
	if c.ranks[rank].presence == present {
		c.suspect(now, rank, reason, c.grace)
	}
}

// markFailed notes what the launcher knows of a rank's end.
func (c *core) markFailed(now time.Time, rank int, reason string) {
	for i := range c.suspects {
		if s := &c.suspects[i]; s.rank == rank && s.due.After(s.at) {
			s.reason, s.due = reason, s.at
			c.resolve(now)
			return
		}
	}
	c.suspect(now, rank, reason, 0)
}

// suspect records a suspicion that is sure after the grace.
func (c *core) suspect(now time.Time, rank int, reason string, grace time.Duration) {
	c.suspects = append(c.suspects, suspicion{rank: rank, reason: reason, at: now, due: now.Add(grace)})
	c.resolve(now)
}

// tick looks at the clock. Calls should come several times per second; if they
// did not, this process was not running, and the ranks' silence proves nothing.
func (c *core) tick(now time.Time) {
	if gap := now.Sub(c.lastTick); gap > c.silence/2 {
		for i := range c.ranks {
			if r := &c.ranks[i]; now.Sub(r.lastSeen) > gap {
				r.lastSeen = r.lastSeen.Add(gap)
			} else {
				r.lastSeen = now
			}
		}
	}
	c.lastTick = now
	if c.failure != nil {
		return
	}
	for i, r := range c.ranks {
		if silent := now.Sub(r.lastSeen); r.presence == present && silent >= c.silence {
			c.suspect(now, i, fmt.Sprintf("has not answered for %.1f s; it may be stopped or frozen", silent.Seconds()), 0)
		}
	}
	if gone := c.missing(); !c.complete && len(gone) > 0 && !now.Before(c.joinUntil) {
		c.timedOut = c.failure == nil && len(c.suspects) == 0
		c.suspects = append(c.suspects, suspicion{
			rank: gone[0], at: now, due: now, missing: gone,
			reason: fmt.Sprintf("did not join within %v; missing: %s", c.joinTime, list(gone)),
		})
	}
	c.resolve(now)
}

// resolve makes the earliest suspicion the job's failure once it is sure.
func (c *core) resolve(now time.Time) {
	if c.failure != nil || len(c.suspects) == 0 {
		return
	}
	if s := c.suspects[0]; !now.Before(s.due) {
		c.failure = &Failure{Rank: s.rank, PID: c.ranks[s.rank].pid, Reason: s.reason, When: s.at, Missing: s.missing, Reported: s.reported}
	}
}
