package grpctransport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"rejoin/collective"
	"rejoin/collective/wire"
)

const (
	service = "rejoin.collective.v1.Exchange"
	method  = "Stream"

	keyRun        = "rejoin-run-bin"
	keyGeneration = "rejoin-generation"
	keyRank       = "rejoin-rank"
)

var errBroken = errors.New("the connection was given up because an operation ended while sending on it")

// Transport is one rank's connections. It is a collective.Transport.
type Transport struct {
	cfg    Config
	server *grpc.Server
	links  []*link // by rank; nil for this one
	sink   collective.Receiver
	work   sync.WaitGroup

	mu      sync.Mutex
	peers   []peerState
	closing bool
	closed  chan struct{} // when closing is set
}

// peerState is what is known of a peer's goodbye.
type peerState struct {
	came bool // its stream is open, or was
	left bool // it has said goodbye
	lost bool // it has been reported as lost
}

var _ collective.Transport = (*Transport)(nil)

// New checks cfg and returns a transport that is not connected yet. It owns
// cfg.Listener, also on an error.
func New(cfg Config) (*Transport, error) {
	checked, err := cfg.withDefaults()
	if err != nil {
		if cfg.Listener != nil {
			err = errors.Join(err, cfg.Listener.Close())
		}
		return nil, err
	}
	t := &Transport{cfg: checked, peers: make([]peerState, len(cfg.Peers)), closed: make(chan struct{})}
	t.server = grpc.NewServer(checked.serverOptions()...)
	t.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: method, ClientStreams: true, ServerStreams: true,
			Handler: func(_ any, s grpc.ServerStream) error { return t.serve(s) },
		}},
	}, t)
	return t, nil
}

// Start serves the listener and begins to connect to every peer.
func (t *Transport) Start(r collective.Receiver) error {
	t.sink = r
	t.work.Go(func() {
		if err := t.server.Serve(t.cfg.Listener); err != nil && !errors.Is(err, net.ErrClosed) {
			t.notServing(fmt.Errorf("this rank no longer accepts connections: %w", err))
		}
	})
	t.links = make([]*link, len(t.cfg.Peers))
	identity := metadata.Pairs(keyRun, t.cfg.RunID,
		keyGeneration, strconv.FormatUint(t.cfg.Generation, 10), keyRank, strconv.Itoa(t.cfg.Rank))
	for rank, addr := range t.cfg.Peers {
		if rank == t.cfg.Rank {
			continue
		}
		l, ctx, err := newLink(rank, addr, !t.cfg.NoSharedMemory, t.cfg.dialOptions())
		if err != nil {
			return errors.Join(err, t.Close(context.Background()))
		}
		t.links[rank] = l
		t.work.Go(func() { t.connect(metadata.NewOutgoingContext(ctx, identity), l) })
	}
	return nil
}

// notServing reports every peer that can no longer come.
func (t *Transport) notServing(err error) {
	for rank := range t.cfg.Peers {
		if rank != t.cfg.Rank && !t.came(rank) {
			t.lose(rank, err)
		}
	}
}

// connect keeps one link until it ends, and reports how it did.
func (t *Transport) connect(ctx context.Context, l *link) {
	if err := l.run(ctx, t.cfg.ConnectTimeout); err != nil {
		t.lose(l.rank, err)
	}
}

// Outgoing returns a message to fill, in memory shared with that rank if it can.
func (t *Transport) Outgoing(to int, h wire.Header, n int) *wire.Message {
	return t.links[to].outgoing(h, n)
}

// Send passes m on, after waiting for the connection if need be.
func (t *Transport) Send(ctx context.Context, to int, m *wire.Message) error {
	defer m.Release() // what was not taken over
	if t.hasLeft(to) {
		return collective.ErrPeerLeft
	}
	err := t.links[to].send(ctx, m)
	if err != nil && t.hasLeft(to) {
		return collective.ErrPeerLeft
	}
	return err
}

// Close says goodbye: it ends this rank's streams, waits until the peers have
// read them to the end, and stops serving. It may be called more than once.
func (t *Transport) Close(ctx context.Context) error {
	t.mu.Lock()
	if !t.closing {
		t.closing = true
		close(t.closed)
	}
	t.mu.Unlock()
	var links sync.WaitGroup
	for _, l := range t.links {
		if l != nil {
			links.Go(func() { l.close(ctx) })
		}
	}
	links.Wait()
	t.server.Stop()
	t.work.Wait()
	return nil
}

func (t *Transport) came(rank int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.peers[rank].came
}

func (t *Transport) hasLeft(rank int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.peers[rank].left
}

// lose reports a peer as lost, once, unless it or this rank said goodbye.
func (t *Transport) lose(rank int, err error) {
	t.mu.Lock()
	p := &t.peers[rank]
	quiet := t.closing || p.left || p.lost
	p.lost = true
	t.mu.Unlock()
	if !quiet {
		t.sink.Lost(rank, err)
	}
}
