package grpctransport

import (
	"fmt"
	"log/slog"

	"google.golang.org/grpc/metadata"

	"rejoin/collective/shm"
	"rejoin/collective/wire"
)

// Every link offers its peer, as it connects, to share memory; a peer that can
// open it says so as it accepts. From then on payloads worth it lie there, and
// their messages say where. All else is as without: order, goodbyes, and how a
// peer's end is noticed.

// minShared is the smallest payload that goes through shared memory, in bytes;
// gRPC moves a smaller one as fast.
const minShared = 2 << 10

// keyShared holds the offer, and in the answer that it is taken.
const keyShared = "rejoin-shared-memory"

// memory returns what this link offers to share, or nil.
func (l *link) memory() *shm.Writer {
	if !l.share {
		return nil
	}
	w, err := shm.Create()
	if err != nil {
		slog.Debug("payloads travel over gRPC", "to", l.rank, "cause", err)
		return nil
	}
	return w
}

// agreed returns w if the peer has opened it.
func (l *link) agreed(w *shm.Writer, answer metadata.MD) *shm.Writer {
	if w == nil {
		return nil
	}
	w.Opened()
	taken := len(answer.Get(keyShared)) > 0
	slog.Debug("payloads travel through shared memory", "to", l.rank, "agreed", taken, "from_bytes", minShared)
	if !taken {
		return nil
	}
	return w
}

// outgoing returns a message to fill: in shared memory if the payload is worth
// it and there is a free slot. A peer that is far behind, and so holds all
// slots, gets the rest over gRPC, whose flow control then makes the sender wait.
func (l *link) outgoing(h wire.Header, n int) *wire.Message {
	select {
	case <-l.ready:
		if l.shared != nil && n >= minShared {
			if m := l.shared.Take(h, n); m != nil {
				return m
			}
		}
	default:
	}
	return wire.NewOutgoing(h, n)
}

// openShared opens what a peer offers, or returns nil.
func (t *Transport) openShared(from int, offer string) *shm.Reader {
	if offer == "" || t.cfg.NoSharedMemory {
		return nil
	}
	r, err := shm.Open(offer)
	if err != nil {
		slog.Debug("payloads travel over gRPC", "from", from, "cause", err)
		return nil
	}
	return r
}

// resolve returns the message whose payload lies in shared memory where m says.
// It releases m.
func resolve(memory *shm.Reader, m *wire.Message) (*wire.Message, error) {
	at, err := wire.DecodePlace(m.Bytes())
	m.Release()
	if err != nil {
		return nil, err
	}
	if memory == nil {
		return nil, fmt.Errorf("%w, of which there is none", shm.ErrPlace)
	}
	return memory.Take(m.Header, at)
}
