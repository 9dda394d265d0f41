package memtransport

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"rejoin/collective"
	"rejoin/collective/wire"
)

var (
	// ErrKilled is what the peers of a killed rank are told.
	ErrKilled = errors.New("connection reset: the rank was killed")
	errClosed = errors.New("the transport is closed")
)

// buffered is how many messages a link holds beyond those in the mailbox.
const buffered = 8

// Hook sees every message before it is delivered, in the order of its link. It
// may change the message, wait (until ctx ends with the receiving transport),
// or return false to drop it; then it releases it.
type Hook func(ctx context.Context, from, to int, m *wire.Message) bool

// Network joins size ranks.
type Network struct {
	hook  Hook
	ends  []*Endpoint
	links [][]chan *wire.Message // from, to; nil is the goodbye
}

// New returns a network of size ranks; hook may be nil.
func New(size int, hook Hook) *Network {
	n := &Network{hook: hook, links: make([][]chan *wire.Message, size)}
	for from := range size {
		n.ends = append(n.ends, &Endpoint{net: n, rank: from, closed: make(chan struct{}), killed: make(chan struct{})})
		for range size {
			n.links[from] = append(n.links[from], make(chan *wire.Message, buffered))
		}
	}
	return n
}

// Endpoint returns the transport of a rank.
func (n *Network) Endpoint(rank int) *Endpoint { return n.ends[rank] }

// Kill breaks every connection of a rank at once, as the end of its process
// would: what is under way is lost, and its peers learn of it.
func (n *Network) Kill(rank int) {
	n.ends[rank].killOnce.Do(func() { close(n.ends[rank].killed) })
}

// Endpoint is one rank's transport.
type Endpoint struct {
	net      *Network
	rank     int
	work     sync.WaitGroup
	closed   chan struct{}
	killed   chan struct{}
	close    sync.Once
	killOnce sync.Once
}

var _ collective.Transport = (*Endpoint)(nil)

// Start delivers to r from one goroutine per peer.
func (e *Endpoint) Start(r collective.Receiver) error {
	for from := range e.net.ends {
		if from != e.rank {
			e.work.Go(func() { e.pump(from, r) })
		}
	}
	return nil
}

// pump delivers what from sends until either end is gone.
func (e *Endpoint) pump(from int, r collective.Receiver) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e.work.Go(func() {
		select {
		case <-e.closed:
		case <-e.killed:
		case <-ctx.Done():
		}
		cancel()
	})
	for {
		select {
		case <-e.closed:
			return
		case <-e.killed:
			r.Lost(from, ErrKilled)
			return
		case <-e.net.ends[from].killed:
			r.Lost(from, ErrKilled)
			return
		case m := <-e.net.links[from][e.rank]:
			if m == nil {
				r.Left(from)
				return
			}
			if e.net.hook == nil || e.net.hook(ctx, from, e.rank, m) {
				r.Deliver(from, m)
			} else {
				m.Release()
			}
		}
	}
}

// Outgoing returns a message in memory of the pool.
func (e *Endpoint) Outgoing(_ int, h wire.Header, n int) *wire.Message { return wire.NewOutgoing(h, n) }

// Send queues m on its link and waits while that is full.
func (e *Endpoint) Send(ctx context.Context, to int, m *wire.Message) error {
	peer := e.net.ends[to]
	select {
	case e.net.links[e.rank][to] <- m:
		return nil
	case <-ctx.Done():
		m.Release()
		return fmt.Errorf("sending to rank %d: %w", to, ctx.Err())
	case <-peer.killed:
		m.Release()
		return ErrKilled
	case <-peer.closed:
		m.Release()
		return collective.ErrPeerLeft
	case <-e.closed:
		m.Release()
		return errClosed
	}
}

// Close says goodbye on every link and stops delivering.
func (e *Endpoint) Close(ctx context.Context) error {
	e.close.Do(func() {
		for to, peer := range e.net.ends {
			if to == e.rank {
				continue
			}
			select {
			case e.net.links[e.rank][to] <- nil:
			case <-peer.closed:
			case <-peer.killed:
			case <-ctx.Done():
			}
		}
		close(e.closed)
	})
	e.work.Wait()
	return nil
}
