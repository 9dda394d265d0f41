package rendezvous_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	pb "rejoin/proto/rendezvouspb"
	"rejoin/rendezvous"
)

// fake is a server that answers a hello with the given messages and ends.
type fake struct {
	pb.UnimplementedRendezvousServer
	answers []*pb.Down
	hold    chan struct{} // if set, the stream lasts until it is closed
}

func (f *fake) Member(s pb.Rendezvous_MemberServer) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	for _, d := range f.answers {
		if err := s.Send(d); err != nil {
			return err
		}
	}
	if f.hold != nil {
		<-f.hold
	}
	return nil
}

func (f *fake) serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	pb.RegisterRendezvousServer(g, f)
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(l) })
	t.Cleanup(func() {
		g.Stop()
		serving.Wait()
	})
	return l.Addr().String()
}

func accepted() *pb.Down {
	return &pb.Down{Kind: &pb.Down_Accepted{Accepted: &pb.Accepted{JoinTimeoutMs: 1000, HeartbeatIntervalMs: 10}}}
}

func world(n int) *pb.Down {
	return &pb.Down{Kind: &pb.Down_World{World: &pb.World{Peers: make([]*pb.Peer, n)}}}
}

// A server that does not keep to the protocol gives an error, never a world.
func TestJoinMistrustsTheServer(t *testing.T) {
	for name, tt := range map[string]struct {
		answers []*pb.Down
		text    string
	}{
		"hangs up":               {nil, "no rendezvous server"},
		"hangs up once accepted": {[]*pb.Down{accepted()}, "went away while ranks were joining"},
		"world without accepted": {[]*pb.Down{world(2)}, "world of 2"},
		"world without us":       {[]*pb.Down{accepted(), accepted(), world(1)}, "world of 1 without rank 1"},
		"empty refusal":          {[]*pb.Down{{Kind: &pb.Down_Refused{Refused: &pb.Refused{}}}}, "refused"},
		"failure":                {[]*pb.Down{{Kind: &pb.Down_Failure{Failure: &pb.Failure{Rank: 7, Reason: "out of memory"}}}}, "rank 7: out of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := rendezvous.Join(t.Context(), (&fake{answers: tt.answers}).serve(t), member(1))
			if err == nil {
				_ = s.Leave(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %q", err, tt.text)
			}
		})
	}
}

// A goodbye that nobody answers ends with its context.
func TestGoodbyeWaitsNoLongerThanItsContext(t *testing.T) {
	f := &fake{answers: []*pb.Down{accepted(), world(2)}, hold: make(chan struct{})}
	addr := f.serve(t)
	t.Cleanup(func() { close(f.hold) })
	s, err := rendezvous.Join(t.Context(), addr, member(1))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Report(ctx, "anything"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Jobs on one host never meet: every rank gets its own job's world.
func TestManyJobsAtOnce(t *testing.T) {
	var jobs sync.WaitGroup
	for j := range 20 {
		id := fmt.Sprintf("job %d", j)
		_, addr := serve(t, rendezvous.ServerConfig{RunID: id, WorldSize: 3, Job: []byte(id)})
		for r := range 3 {
			jobs.Go(func() {
				m := member(r)
				m.RunID = id
				s, err := rendezvous.Join(t.Context(), addr, m)
				if err != nil {
					t.Errorf("%s rank %d: %v", id, r, err)
					return
				}
				if w := s.World(); string(w.Job) != id || w.Rank != r {
					t.Errorf("%s rank %d got %q rank %d", id, r, w.Job, w.Rank)
				}
				if err := s.Leave(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	jobs.Wait()
}
