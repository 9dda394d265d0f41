package memtransport_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rejoin/collective"
	"rejoin/collective/memtransport"
	"rejoin/collective/wire"
)

// log is a receiver that writes down what happens.
type log struct{ events chan string }

func newLog() log { return log{make(chan string, 100)} }

func (l log) Deliver(from int, m *wire.Message) {
	l.events <- fmt.Sprintf("%d: message %d", from, m.Tag)
	m.Release()
}
func (l log) Left(from int)            { l.events <- fmt.Sprintf("%d: left", from) }
func (l log) Lost(from int, err error) { l.events <- fmt.Sprintf("%d: lost: %v", from, err) }

func message(tag uint32) *wire.Message {
	return wire.NewOutgoing(wire.Header{Kind: wire.Data, Tag: tag}, 0)
}

func start(t *testing.T, n *memtransport.Network, ranks int) []log {
	t.Helper()
	logs := make([]log, ranks)
	for r := range logs {
		logs[r] = newLog()
		if err := n.Endpoint(r).Start(logs[r]); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Endpoint(r).Close(context.Background()) })
	}
	return logs
}

func TestMessagesArriveInOrderAndBeforeTheGoodbye(t *testing.T) {
	n := memtransport.New(2, nil)
	logs := start(t, n, 2)
	for i := range uint32(20) {
		if err := n.Endpoint(0).Send(t.Context(), 1, message(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Endpoint(0).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if got, want := <-logs[1].events, fmt.Sprintf("0: message %d", i); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if got := <-logs[1].events; got != "0: left" {
		t.Errorf("got %q", got)
	}
	if err := n.Endpoint(1).Send(t.Context(), 0, message(0)); err != nil && !errors.Is(err, collective.ErrPeerLeft) {
		t.Errorf("sending to one that left: %v", err)
	}
}

func TestKillIsSeenByAll(t *testing.T) {
	n := memtransport.New(3, nil)
	logs := start(t, n, 3)
	n.Kill(2)
	n.Kill(2)
	for _, r := range []int{0, 1} {
		if got, want := <-logs[r].events, "2: lost: "+memtransport.ErrKilled.Error(); got != want {
			t.Errorf("rank %d: %q, want %q", r, got, want)
		}
	}
	got := []string{<-logs[2].events, <-logs[2].events}
	slices.Sort(got)
	if got[0][:8] != "0: lost:" || got[1][:8] != "1: lost:" {
		t.Errorf("the killed rank saw %q", got)
	}
}

func TestSendWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := func(ctx context.Context, _, _ int, _ *wire.Message) bool {
			<-ctx.Done()
			return false
		}
		n := memtransport.New(2, block)
		start(t, n, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		sent := 0
		var err error
		for ; err == nil; sent++ {
			err = n.Endpoint(0).Send(ctx, 1, message(0))
		}
		if !errors.Is(err, context.DeadlineExceeded) || sent < 8 {
			t.Errorf("after %d messages: %v", sent, err)
		}
	})
}

func TestHookDrops(t *testing.T) {
	n := memtransport.New(2, func(_ context.Context, _, _ int, m *wire.Message) bool { return m.Tag%2 == 0 })
	logs := start(t, n, 2)
	for i := range uint32(4) {
		if err := n.Endpoint(0).Send(t.Context(), 1, message(i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := []string{<-logs[1].events, <-logs[1].events}; got[0] != "0: message 0" || got[1] != "0: message 2" {
		t.Errorf("got %q", got)
	}
}
