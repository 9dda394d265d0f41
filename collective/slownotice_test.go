package collective_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"rejoin/collective"
	"rejoin/collective/memtransport"
	"rejoin/collective/wire"
)

// stuckNotices is a transport on which notices stand still for a while, as on a
// starved machine; a send that is given up would take its connection with it.
type stuckNotices struct {
	collective.Transport
	t       *testing.T
	release <-chan struct{}
}

func (s stuckNotices) Send(ctx context.Context, to int, m *wire.Message) error {
	if m.Header.Kind == wire.Notice {
		select {
		case <-ctx.Done():
			s.t.Error("a notice was given up while the group worked")
		case <-s.release:
		}
	}
	return s.Transport.Send(ctx, to, m)
}

// A rank that waits long asks the others what they are doing. However slowly
// that question travels, it must not cost the group.
func TestSlowNoticeDoesNotEndTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, release := memtransport.New(2, nil), make(chan struct{})
		groups := make([]*collective.Group, 2)
		for rank := range groups {
			g, err := collective.New(collective.Config{Rank: rank, Size: 2, Transport: stuckNotices{net.Endpoint(rank), t, release}})
			if err != nil {
				t.Fatal(err)
			}
			groups[rank] = g
		}
		done := make(chan error, 2)
		go func() { done <- groups[0].Barrier(t.Context()) }()
		<-time.After(20 * time.Second) // rank 1 is far behind; rank 0 has asked
		go func() { done <- groups[1].Barrier(t.Context()) }()
		for range groups {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		close(release)
		for _, g := range groups {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
