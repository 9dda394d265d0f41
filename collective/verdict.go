package collective

import (
	"errors"
	"time"
)

// verdict decides which error ends a group. It is fed with what a rank comes
// to know and does no I/O: a broken connection or a passed deadline opens a
// short hearing, in which better knowledge may arrive (the root cause from the
// rendezvous, another rank's notice); what is sure ends it at once.
type verdict struct {
	self int
	// Evidence that leaves room for doubt.
	lost    *PeerError
	late    *DeadlineError
	waitFor map[int]int // which rank waits for which, by what they said

	open  bool  // a hearing is under way
	final error // the verdict, once there is one
}

// lose notes a broken connection. It returns whether a hearing must begin.
func (v *verdict) lose(e *PeerError) bool {
	if v.lost == nil && v.late == nil {
		v.lost = e
	}
	return v.hear()
}

// miss notes that this rank's own deadline has passed. It returns whether a
// hearing must begin.
func (v *verdict) miss(e *DeadlineError) bool {
	if v.late == nil {
		v.late = e
	}
	v.wait(v.self, e.Rank)
	return v.hear()
}

// wait notes that one rank waits for another.
func (v *verdict) wait(rank, forRank int) {
	if v.waitFor == nil {
		v.waitFor = map[int]int{}
	}
	v.waitFor[rank] = forRank
}

func (v *verdict) hear() bool {
	if v.open || v.final != nil {
		return false
	}
	v.open = true
	return true
}

// decide ends the matter with err. It returns false if it was ended before.
func (v *verdict) decide(err error) bool {
	if v.final != nil {
		return false
	}
	v.final = err
	return true
}

// during completes a verdict on a rank that failed between operations by the
// one that first meets it.
func (v *verdict) during(op string, seq uint64) {
	// Only our own error, not one inside a cause that a caller gave.
	if p, ours := v.final.(*PeerError); ours && p.Op == "" { //nolint:errorlint // on purpose, see above
		p.Op, p.Seq = op, seq
	}
}

// close ends a hearing in which nothing better came up: a broken connection is
// the fault of the rank at its other end; a missed deadline that of the last
// rank of the chain of waits, the one that waits for nobody.
func (v *verdict) close() error {
	if v.lost != nil {
		return v.lost
	}
	e := *v.late
	seen := map[int]bool{}
	for {
		seen[e.Rank] = true
		next, waits := v.waitFor[e.Rank]
		if !waits {
			return &e
		}
		if seen[next] { // they wait for each other: a message was lost
			return v.late
		}
		e.Rank = next
	}
}

// errorOf turns another rank's verdict into this rank's error.
func errorOf(n notice, op string, seq uint64) error {
	switch {
	case n.Mismatch != nil:
		return n.Mismatch
	case n.Deadline != nil:
		d := n.Deadline
		return &DeadlineError{Rank: d.Rank, Op: d.Op, Seq: d.Seq, After: max(d.After, time.Duration(0))}
	default:
		return &PeerError{Rank: n.Peer.Rank, Op: op, Seq: seq, Cause: errors.New(n.Peer.Cause)}
	}
}
