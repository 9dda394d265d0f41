package collective

import (
	"fmt"

	"rejoin/collective/plan"
	"rejoin/collective/wire"
)

// receiver is the side of a Group that its transport sees.
type receiver Group

// Deliver queues data for the operation and acts on notices at once.
func (r *receiver) Deliver(from int, m *wire.Message) {
	g := (*Group)(r)
	if m.Kind == wire.Notice {
		body := m.Bytes()
		m.Release()
		g.noticed(from, body)
		return
	}
	select {
	case g.mail[from] <- m:
	case <-g.failed:
		m.Release()
	}
}

// Left closes the peer's mailbox; who still waits for it learns so after the
// messages that are in it.
func (r *receiver) Left(from int) {
	g := (*Group)(r)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.left[from] {
		g.left[from] = true
		close(g.mail[from])
	}
}

// Lost opens a hearing.
func (r *receiver) Lost(from int, err error) { (*Group)(r).lost(from, err) }

func (g *Group) lost(rank int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing || g.verdict.final != nil {
		return
	}
	op, seq := g.activity()
	if g.verdict.lose(&PeerError{Rank: rank, Op: op, Seq: seq, Cause: err}) {
		g.hear()
	}
}

// late opens a hearing about an operation whose deadline has passed.
func (g *Group) late(rank int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.verdict.final != nil {
		return
	}
	op, seq := g.activity()
	if g.verdict.miss(&DeadlineError{Rank: rank, Op: op, Seq: seq, After: g.cfg.Timeout}) {
		g.tell(notice{Waits: &waitNotice{rank}})
		g.hear()
	}
}

// noticed acts on what another rank says about a failure.
func (g *Group) noticed(from int, body []byte) {
	n, err := decodeNotice(body, g.cfg.Size)
	if err != nil {
		g.lost(from, fmt.Errorf("rank %d sent garbage: %w", from, err))
		return
	}
	if n.Call != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.asked[from] = n.Call.Fingerprint
		g.compare(from)
		return
	}
	if n.Waits != nil {
		g.waits(from, n.Waits.For)
		return
	}
	g.mu.Lock()
	op, seq := g.activity()
	g.mu.Unlock()
	g.fail(errorOf(n, op, seq), false)
}

// waits notes that a rank whose time is up waits for another, and answers with
// whom this rank waits for, so that all can follow the chain to its end.
func (g *Group) waits(from, forRank int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.verdict.final != nil {
		return
	}
	g.verdict.wait(from, forRank)
	op, seq := g.activity()
	mine := int(g.waiting.Load())
	e := &DeadlineError{Rank: forRank, Op: op, Seq: seq, After: g.cfg.Timeout}
	if mine != plan.Nobody {
		e.Rank = mine
		if g.verdict.miss(e) {
			g.tell(notice{Waits: &waitNotice{mine}})
			g.hear()
		}
		return
	}
	// This rank waits for nobody: it may be the late one itself.
	if g.verdict.late == nil {
		g.verdict.late = e
	}
	if g.verdict.hear() {
		g.hear()
	}
}

// ask tells the others in which call this rank has been waiting, in case they
// wait in another. Such ranks need not exchange a message that would show it.
func (g *Group) ask(fp wire.Fingerprint) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running && g.current == fp && g.verdict.final == nil {
		g.tell(notice{Call: &callNotice{fp}})
	}
}

// compare fails the group if a rank waits in a call that has the number of the
// running one but is another. The caller holds g.mu.
func (g *Group) compare(rank int) {
	theirs, mine := g.asked[rank], g.current
	if !g.running || theirs.Seq != mine.Seq || theirs == mine || theirs.Seq == 0 {
		return
	}
	g.failLocked(mismatch(Call{Rank: g.cfg.Rank, Fingerprint: mine}, Call{Rank: rank, Fingerprint: theirs}), true)
}
