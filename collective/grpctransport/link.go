package grpctransport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"rejoin/collective/shm"
	"rejoin/collective/wire"
)

// link is this rank's stream to one peer. One goroutine runs it: it opens the
// stream and waits for its end. Any goroutine may send.
type link struct {
	rank int
	addr string
	conn *grpc.ClientConn

	cancel context.CancelFunc // ends the stream at once
	turn   chan struct{}      // holds one token: whose turn it is to send
	ready  chan struct{}      // closed when stream is set
	ended  chan struct{}      // closed when err is set
	stream grpc.ClientStream
	err    error
	share  bool        // offer the peer to share memory
	shared *shm.Writer // that memory, nil if it is not shared; set with stream

	givenUp   atomic.Bool // by a send whose operation ended
	closeOnce sync.Once
	mu        sync.Mutex
	raw       net.Conn // below conn
}

// newLink returns a link and the context of its stream, which run wants. The
// link offers the peer to share memory if share is set.
func newLink(rank int, addr string, share bool, options []grpc.DialOption) (*link, context.Context, error) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{
		rank: rank, addr: addr, cancel: cancel, share: share,
		turn: make(chan struct{}, 1), ready: make(chan struct{}), ended: make(chan struct{}),
	}
	l.turn <- struct{}{}
	// The target is a name for gRPC to show; dial takes the address from l.
	conn, err := grpc.NewClient("passthrough:///rank-"+strconv.Itoa(rank),
		append(options, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.dial(ctx) }))...)
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("grpctransport: connecting to rank %d at %s: %w", rank, addr, err)
	}
	l.conn = conn
	return l, ctx, nil
}

// dial connects, and remembers the connection so that it can be cut.
func (l *link) dial(ctx context.Context) (net.Conn, error) {
	c, err := dial(ctx, l.addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.raw = c
	return c, nil
}

// cut closes the connection below gRPC, which would otherwise wait for seconds
// to say goodbye to a peer that is stopped.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.raw != nil {
		_ = l.raw.Close() // its only error is that it is closed already
	}
}

// run opens the stream and returns why it ended, nil if the peer read it to the
// end or it was given up: the operation that did so knows a better reason.
func (l *link) run(ctx context.Context, timeout time.Duration) error {
	defer l.cancel()
	memory := l.memory()
	if memory != nil {
		defer memory.Close()
		ctx = metadata.AppendToOutgoingContext(ctx, keyShared, memory.Offer())
	}
	l.err = l.open(ctx, timeout, memory)
	if l.err == nil {
		l.err = l.watch()
	}
	if l.givenUp.Load() {
		l.err = errBroken
	}
	close(l.ended)
	if errors.Is(l.err, io.EOF) || errors.Is(l.err, errBroken) {
		return nil
	}
	return l.err
}

// open connects and waits until the peer has accepted the stream. It is the
// peer's header that commits the stream: without it gRPC would keep every
// payload for a retry.
func (l *link) open(ctx context.Context, timeout time.Duration, memory *shm.Writer) error {
	late := errors.New("no answer")
	timer := time.AfterFunc(timeout, l.cancel)
	var accepted metadata.MD
	stream, err := l.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+service+"/"+method)
	if err == nil {
		if accepted, err = stream.Header(); err == nil && len(accepted.Get(keyRank)) == 0 {
			err = stream.RecvMsg(new(incoming)) // refused: the status says why
		}
	}
	if !timer.Stop() && err != nil {
		err = late
	}
	switch {
	case errors.Is(err, late):
		return fmt.Errorf("no connection to %s within %v", l.addr, timeout)
	case err != nil:
		return fmt.Errorf("connecting to %s: %w", l.addr, err)
	}
	l.stream = stream
	l.shared = l.agreed(memory, accepted)
	close(l.ready)
	return nil
}

// watch waits for the end of the stream; the peer sends nothing on it.
func (l *link) watch() error {
	err := l.stream.RecvMsg(new(incoming))
	switch {
	case errors.Is(err, io.EOF):
		return err
	case err == nil:
		return fmt.Errorf("%s answered on a stream that goes one way", l.addr)
	}
	return fmt.Errorf("the connection to %s broke, its process may have ended: %w", l.addr, err)
}

// send sends m in its turn. When ctx ends meanwhile, the stream is given up.
func (l *link) send(ctx context.Context, m *wire.Message) error {
	select {
	case <-l.ready:
	default:
		if err := l.await(ctx, l.ready); err != nil {
			return err
		}
	}
	if err := l.await(ctx, l.turn); err != nil {
		return err
	}
	defer func() { l.turn <- struct{}{} }()
	stop := context.AfterFunc(ctx, func() {
		l.givenUp.Store(true)
		l.cancel()
	})
	err := l.stream.SendMsg(m)
	if !stop() && err != nil {
		return errBroken
	}
	if err == nil {
		return nil
	}
	<-l.ended // gRPC says why where it receives
	if l.err != nil {
		return l.err
	}
	return err
}

// await waits for c, the end of the link, or the end of ctx.
func (l *link) await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-l.ended:
		return l.err
	case <-ctx.Done():
		return fmt.Errorf("waiting to send to %s: %w", l.addr, ctx.Err())
	}
}

// close ends the stream in good order and waits until the peer has read it, or
// ctx ends.
func (l *link) close(ctx context.Context) {
	l.closeOnce.Do(func() {
		if l.await(ctx, l.ready) == nil && l.await(ctx, l.turn) == nil {
			_ = l.stream.CloseSend() // always nil
			_ = l.await(ctx, nil)    // for the end
			l.turn <- struct{}{}
		}
		l.cancel()
		l.cut()
		<-l.ended
		_ = l.conn.Close() // its only error is that it is closed already
	})
}
