package grpctransport

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"rejoin/collective"
	"rejoin/collective/wire"
)

// inbox is a receiver that keeps what arrives, and why peers were lost.
type inbox struct {
	messages chan *wire.Message
	lost     chan error
}

func newInbox() inbox { return inbox{make(chan *wire.Message, 1000), make(chan error, 10)} }

func (i inbox) Deliver(_ int, m *wire.Message) { i.messages <- m }
func (i inbox) Left(int)                       {}
func (i inbox) Lost(_ int, err error)          { i.lost <- err }

func running(t *testing.T) (*Transport, inbox) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	tr, err := New(Config{Rank: 0, Peers: []string{Address(l), Address(other)}, Listener: l, RunID: "run", Generation: 4})
	if err != nil {
		t.Fatal(err)
	}
	e := newInbox()
	if err := tr.Start(e); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nobody is there to say goodbye to
		_ = tr.Close(ctx)
	})
	return tr, e
}

// open opens a stream to tr with the given identity and returns its link.
func open(t *testing.T, tr *Transport, run, generation, rank string) *link {
	t.Helper()
	return openWith(t, tr, true, keyRun, run, keyGeneration, generation, keyRank, rank)
}

// openWith opens a stream to tr with the given metadata, and offers to share
// memory or not.
func openWith(t *testing.T, tr *Transport, share bool, md ...string) *link {
	t.Helper()
	l, ctx, err := newLink(0, tr.cfg.Peers[0], share, tr.cfg.dialOptions())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.run(metadata.NewOutgoingContext(ctx, metadata.Pairs(md...)), DefaultConnectTimeout)
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		l.close(ctx)
		<-done
	})
	return l
}

func TestAdmission(t *testing.T) {
	tr, _ := running(t)
	for name, tt := range map[string]struct{ run, generation, rank, text string }{
		"run":        {"other", "4", "1", `run "other", expected "run"`},
		"generation": {"run", "3", "1", `generation "3", expected 4`},
		"no number":  {"run", "4", "x", `rank "x" of 2`},
		"too large":  {"run", "4", "2", `rank "2" of 2`},
		"itself":     {"run", "4", "0", `rank "0" of 2`},
	} {
		l := open(t, tr, tt.run, tt.generation, tt.rank)
		if <-l.ended; !strings.Contains(l.err.Error(), tt.text) {
			t.Errorf("%s: %v, want %q", name, l.err, tt.text)
		}
	}
	first := open(t, tr, "run", "4", "1")
	<-first.ready
	if second := open(t, tr, "run", "4", "1"); second.await(t.Context(), second.ready) == nil || !strings.Contains(second.err.Error(), "connected already") {
		t.Errorf("a second stream of rank 1: %v", second.err)
	}
}

// A peer that speaks for another rank is cut off and reported.
func TestMessageOfAnotherRank(t *testing.T) {
	tr, e := running(t)
	l := open(t, tr, "run", "4", "1")
	if err := l.send(t.Context(), wire.NewOutgoing(wire.Header{Kind: wire.Data, From: 9}, 0)); err != nil {
		t.Fatal(err)
	}
	if err := <-e.lost; !strings.Contains(err.Error(), "rank 9 on the stream of rank 1") {
		t.Errorf("reported %v", err)
	}
	<-l.ended
	if err := l.send(t.Context(), wire.NewOutgoing(wire.Header{Kind: wire.Data, From: 1}, 0)); err == nil {
		t.Error("sent on a stream that has ended")
	}
}

// Sending to a peer that cannot be reached yet waits for its context only.
func TestSendWithoutConnection(t *testing.T) {
	tr, _ := running(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := tr.Send(ctx, 1, wire.NewOutgoing(wire.Header{Kind: wire.Data}, 8))
	if !errors.Is(err, context.Canceled) || errors.Is(err, collective.ErrPeerLeft) {
		t.Errorf("got %v", err)
	}
}
