package collective

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"rejoin/collective/plan"
	"rejoin/collective/wire"
)

const (
	mailboxMessages = 64                     // per peer, before its sender must wait
	askAfter        = time.Second            // in one operation, before comparing calls
	noticeTime      = 250 * time.Millisecond // to tell a peer of a failure
	drainTime       = 2 * time.Second        // for what was sent to arrive, on Close
	failedDrainTime = 250 * time.Millisecond // the same after a failure: for the notices
)

// Group is one rank's end of the process group. Its methods may be called from
// any goroutine, one operation at a time; Abort and Close at any time.
type Group struct {
	cfg     Config
	mail    []chan *wire.Message // by sending rank; closed when that rank has left
	busy    atomic.Bool
	waiting atomic.Int32  // the rank that the operation waits for, or plan.Nobody
	failed  chan struct{} // closed when verdict.final is set
	work    sync.WaitGroup

	mu       sync.Mutex
	verdict  verdict
	left     []bool
	asked    []wire.Fingerprint // by rank: the last call it waited in
	current  wire.Fingerprint   // of the last operation begun
	running  bool               // whether it still runs
	cancelOp context.CancelFunc // of the running operation
	endHear  context.CancelFunc // of the hearing
	closing  bool
}

// New makes this rank's group and starts its transport. It does not wait for
// the other ranks; the first operation does.
func New(cfg Config) (*Group, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Group{cfg: cfg, failed: make(chan struct{}), left: make([]bool, cfg.Size), asked: make([]wire.Fingerprint, cfg.Size)}
	g.verdict.self = cfg.Rank
	g.current.Generation = cfg.Generation
	g.waiting.Store(plan.Nobody)
	g.mail = make([]chan *wire.Message, cfg.Size)
	for i := range g.mail {
		g.mail[i] = make(chan *wire.Message, mailboxMessages)
	}
	if cfg.Size > 1 {
		if err := cfg.Transport.Start((*receiver)(g)); err != nil {
			return nil, fmt.Errorf("collective: starting the transport of rank %d: %w", cfg.Rank, err)
		}
	}
	return g, nil
}

// Rank returns this rank, from 0.
func (g *Group) Rank() int { return g.cfg.Rank }

// Size returns the number of ranks.
func (g *Group) Size() int { return g.cfg.Size }

// Abort ends the group on all ranks: every pending and later operation returns
// an error that wraps cause here, and elsewhere one that names the rank at
// fault. That is the rank which cause names by FailedRank() int, or this one.
func (g *Group) Abort(cause error) {
	if cause == nil {
		cause = errors.New("no cause given")
	}
	g.mu.Lock()
	op, seq := g.activity()
	g.mu.Unlock()
	g.fail(&abortError{op, seq, cause}, true)
}

// Close leaves the group. What was sent still arrives; operations that run end
// with ErrClosed. It is not a failure for the others unless they wait for this
// rank. Close may be called more than once.
func (g *Group) Close() error {
	g.mu.Lock()
	again := g.closing
	g.closing = true
	g.mu.Unlock()
	if again {
		g.work.Wait()
		return nil
	}
	g.fail(ErrClosed, false)
	g.work.Wait()
	if g.cfg.Size == 1 {
		return nil
	}
	drain := drainTime
	if !errors.Is(g.err(), ErrClosed) {
		drain = failedDrainTime
	}
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	err := g.cfg.Transport.Close(ctx)
	g.work.Wait()
	g.drain()
	if err != nil {
		return fmt.Errorf("collective: closing the transport of rank %d: %w", g.cfg.Rank, err)
	}
	return nil
}

// drain releases what nobody will receive.
func (g *Group) drain() {
	for _, box := range g.mail {
		for more := true; more; {
			select {
			case m, ok := <-box:
				if more = ok; ok {
					m.Release()
				}
			default:
				more = false
			}
		}
	}
}

// activity names the running operation. The caller holds g.mu.
func (g *Group) activity() (op string, seq uint64) {
	if !g.running {
		return "", 0
	}
	return g.current.Op.String(), g.current.Seq
}

// fail ends the group with err, if nothing ended it before, and tells the
// others if asked to.
func (g *Group) fail(err error, tell bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failLocked(err, tell)
}

// failLocked is fail for a caller that holds g.mu.
func (g *Group) failLocked(err error, tell bool) {
	if !g.verdict.decide(err) {
		return
	}
	g.verdict.during(g.activity())
	close(g.failed)
	if g.cancelOp != nil {
		g.cancelOp()
	}
	if g.endHear != nil {
		g.endHear()
	}
	if tell {
		g.tell(noticeOf(err, g.cfg.Rank))
	}
}

// err returns the verdict; only after g.failed is closed.
func (g *Group) err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.verdict.final
}

// tell sends n to every other rank. The caller holds g.mu.
func (g *Group) tell(n notice) {
	body, err := n.encode()
	if err != nil || g.closing {
		return
	}
	for to := range g.cfg.Size {
		if to == g.cfg.Rank || g.left[to] {
			continue
		}
		m := wire.NewOutgoing(wire.Header{Kind: wire.Notice, From: uint32(g.cfg.Rank), Fingerprint: wire.Fingerprint{Generation: g.cfg.Generation}}, len(body))
		copy(m.Payload(), body)
		g.work.Go(func() { g.deliverNotice(to, m) })
	}
}

// deliverNotice sends a notice to one rank. A send that is given up takes its
// connection with it, so it is not while the group may still work, however slow
// the machine: only noticeTime after the group has failed or closed.
func (g *Group) deliverNotice(to int, m *wire.Message) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sent := make(chan struct{})
	g.work.Go(func() {
		select {
		case <-sent:
			return
		case <-g.failed:
		}
		timer := time.NewTimer(noticeTime)
		defer timer.Stop()
		select {
		case <-sent:
		case <-timer.C:
			cancel()
		}
	})
	// A peer that cannot be told finds out by its own means.
	_ = g.cfg.Transport.Send(ctx, to, m)
	close(sent)
}

// hear opens the hearing of g.verdict: it asks for the root cause, and after
// the grace decides by the evidence. The caller holds g.mu.
func (g *Group) hear() {
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.Grace)
	g.endHear = cancel
	g.work.Go(func() {
		defer cancel()
		if g.cfg.RootCause != nil {
			if root := g.cfg.RootCause(ctx); root != nil {
				g.fail(g.rootError(root), true)
				return
			}
		}
		<-ctx.Done()
		g.mu.Lock()
		err := g.verdict.close()
		g.mu.Unlock()
		g.fail(err, true)
	})
}

// rootError makes the error of a root cause from outside.
func (g *Group) rootError(root error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	op, seq := g.activity()
	suspect := g.cfg.Rank
	if g.verdict.lost != nil {
		suspect = g.verdict.lost.Rank
	} else if g.verdict.late != nil {
		suspect = g.verdict.late.Rank
	}
	return &PeerError{Rank: failedRank(root, suspect), Op: op, Seq: seq, Cause: root}
}
