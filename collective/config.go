package collective

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rejoin/collective/wire"
)

// Defaults of Config.
const (
	DefaultTimeout        = 60 * time.Second
	DefaultGrace          = 400 * time.Millisecond
	DefaultSegmentBytes   = 256 << 10
	DefaultMaxGatherBytes = 1 << 30
)

// MaxSegmentBytes is the largest message payload that transports must carry.
const MaxSegmentBytes = 32 << 20

// Config describes one rank's membership in a group. Rank, Size and, beyond
// one rank, Transport are required; all else has a default. Generation,
// Timeout, SegmentBytes and MaxGatherBytes must be equal on all ranks.
type Config struct {
	Rank, Size int
	// Generation numbers the incarnations of a job. Messages of another
	// generation are refused.
	Generation uint64
	// Transport moves the messages; the group owns it from New on and closes it.
	Transport Transport
	// Timeout bounds each operation.
	Timeout time.Duration
	// Grace is how long a rank waits for a better explanation when a connection
	// breaks or a deadline passes, before it blames the rank at the other end.
	Grace time.Duration
	// SegmentBytes is the payload of one message, at most MaxSegmentBytes.
	SegmentBytes int
	// MaxGatherBytes bounds what AllGather may allocate.
	MaxGatherBytes int
	// RootCause, if set, is asked when a connection breaks or a deadline passes
	// why the job is failing. It returns nil if it does not know, waits no
	// longer than ctx, and names the rank by a method FailedRank() int.
	RootCause func(ctx context.Context) error
}

// ErrConfig is wrapped by every error about a Config.
var ErrConfig = errors.New("collective: configuration")

func (c Config) withDefaults() (Config, error) {
	orDefault(&c.Timeout, DefaultTimeout)
	orDefault(&c.Grace, DefaultGrace)
	orDefault(&c.SegmentBytes, DefaultSegmentBytes)
	orDefault(&c.MaxGatherBytes, DefaultMaxGatherBytes)
	switch {
	case c.Size < 1:
		return c, fmt.Errorf("%w: size %d, expected at least 1", ErrConfig, c.Size)
	case c.Rank < 0 || c.Rank >= c.Size:
		return c, fmt.Errorf("%w: rank %d, expected 0 to %d", ErrConfig, c.Rank, c.Size-1)
	case c.Size > 1 && c.Transport == nil:
		return c, fmt.Errorf("%w: %d ranks need a transport", ErrConfig, c.Size)
	case c.Timeout < 0 || c.Grace < 0:
		return c, fmt.Errorf("%w: timeout %v and grace %v must be positive", ErrConfig, c.Timeout, c.Grace)
	case c.SegmentBytes < 8 || c.SegmentBytes > MaxSegmentBytes:
		return c, fmt.Errorf("%w: segment of %d bytes, expected 8 to %d", ErrConfig, c.SegmentBytes, MaxSegmentBytes)
	case c.MaxGatherBytes < 0:
		return c, fmt.Errorf("%w: gather limit of %d bytes", ErrConfig, c.MaxGatherBytes)
	}
	return c, nil
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Transport moves messages between the ranks of one group, in order between
// any two. It buffers at least 8 messages per pair of ranks.
type Transport interface {
	// Start begins to deliver to r, and to connect. It is called once, before
	// any Send, and does not wait for peers.
	Start(r Receiver) error
	// Outgoing returns a message to fill and to send to that rank, or to release;
	// its payload is n bytes, uninitialised and aligned to 8. It does not wait.
	Outgoing(to int, h wire.Header, n int) *wire.Message
	// Send passes m on and returns when it is under way; it owns m, also on an
	// error. If ctx ends first, the connection to that rank is given up. It may
	// be called from several goroutines.
	Send(ctx context.Context, to int, m *wire.Message) error
	// Close says goodbye to every peer, lets what was sent arrive as long as ctx
	// lasts, and releases everything. No call to the receiver follows it.
	Close(ctx context.Context) error
}

// Receiver takes what arrives. Calls for one peer come one at a time.
type Receiver interface {
	// Deliver hands over a message, which the receiver releases. It blocks while
	// the receiver is full, and never after the group has failed.
	Deliver(from int, m *wire.Message)
	// Left says that a peer closed its side in good order; nothing more follows.
	Left(from int)
	// Lost says that the connection to a peer broke without a goodbye.
	Lost(from int, err error)
}
