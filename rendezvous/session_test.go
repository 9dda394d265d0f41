package rendezvous_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "rejoin/proto/rendezvouspb"
	"rejoin/rendezvous"
)

// serve runs a server of the configuration and returns it and its address.
func serve(t testing.TB, cfg rendezvous.ServerConfig) (*rendezvous.Server, string) {
	t.Helper()
	if cfg.RunID == "" {
		cfg.RunID = "job"
	}
	s, err := rendezvous.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Stop(context.Background()), <-served); err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

func member(rank int) rendezvous.Member {
	return rendezvous.Member{RunID: "job", Rank: rank, PID: 100 + rank, Addr: fmt.Sprintf("host:%d", rank)}
}

// join joins ranks 0 … n-1 and fails the test if one cannot.
func join(t testing.TB, addr string, n int) []*rendezvous.Session {
	t.Helper()
	out, errs := make([]*rendezvous.Session, n), make([]error, n)
	var ranks sync.WaitGroup
	for r := range n {
		ranks.Go(func() { out[r], errs[r] = rendezvous.Join(t.Context(), addr, member(r)) })
	}
	ranks.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range out {
			_ = s.Leave(context.Background()) // the server may be gone
		}
	})
	return out
}

func TestJoinGivesEveryRankTheWorld(t *testing.T) {
	job := []byte(strings.Repeat("payload ", 1<<17)) // 1 MiB
	s, addr := serve(t, rendezvous.ServerConfig{WorldSize: 4, Job: job})
	sessions := join(t, addr, 4)
	for r, ss := range sessions {
		w := ss.World()
		if w.RunID != "job" || w.Rank != r || w.Size != 4 || string(w.Job) != string(job) {
			t.Errorf("rank %d: run %q rank %d size %d, job of %d bytes", r, w.RunID, w.Rank, w.Size, len(w.Job))
		}
		for p, peer := range w.Peers {
			if peer.Rank != p || peer.PID != 100+p || peer.Addr != fmt.Sprintf("host:%d", p) || w.Addrs()[p] != peer.Addr {
				t.Errorf("rank %d: peer %d is %+v", r, p, peer)
			}
		}
	}
	peers, err := s.Joined(t.Context())
	if err != nil || len(peers) != 4 || peers[3].PID != 103 || len(s.Missing()) != 0 {
		t.Errorf("Joined: %v, %v; missing %v", peers, err, s.Missing())
	}
}

func TestLeaveIsNoFailure(t *testing.T) {
	s, addr := serve(t, rendezvous.ServerConfig{WorldSize: 2})
	sessions := join(t, addr, 2)
	for _, ss := range sessions {
		if err := errors.Join(ss.Leave(t.Context()), ss.Leave(t.Context())); err != nil {
			t.Error(err)
		}
	}
	<-s.Finished()
	if f, failed := s.FirstFailure(); failed {
		t.Errorf("failure: %v", f)
	}
	var stale *rendezvous.StaleJobError
	if _, err := rendezvous.Join(t.Context(), addr, member(1)); !errors.As(err, &stale) || !stale.Ended {
		t.Errorf("joining a finished job: %v", err)
	}
}

// Whatever way a rank fails, every other rank and the launcher are told the same.
func TestFirstFailureReachesEveryone(t *testing.T) {
	for name, tt := range map[string]struct {
		fail func(t *testing.T, s *rendezvous.Server, ss *rendezvous.Session)
		text string
	}{
		"the launcher saw it exit": {
			func(_ *testing.T, s *rendezvous.Server, _ *rendezvous.Session) {
				s.MarkFailed(1, "killed by signal 9")
			},
			"rank 1 (pid 101): killed by signal 9",
		},
		"it reports": {
			func(t *testing.T, _ *rendezvous.Server, ss *rendezvous.Session) {
				t.Helper()
				if err := ss.Report(t.Context(), "cannot read weights"); err != nil {
					t.Error(err)
				}
			},
			"rank 1 (pid 101): cannot read weights",
		},
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan rendezvous.Failure, 2)
			s, addr := serve(t, rendezvous.ServerConfig{WorldSize: 3, OnFailure: func(f rendezvous.Failure) { told <- f }})
			sessions := join(t, addr, 3)
			tt.fail(t, s, sessions[1])
			for _, r := range []int{0, 2} {
				<-sessions[r].Failed()
				if f, ok := sessions[r].Failure(); !ok || f.String() != tt.text {
					t.Errorf("rank %d was told %v", r, f)
				}
				var failed *rendezvous.PeerFailedError
				if err := sessions[r].RootCause(t.Context()); !errors.As(err, &failed) || failed.FailedRank() != 1 {
					t.Errorf("rank %d: root cause %v", r, err)
				}
			}
			if f := <-told; f.String() != tt.text {
				t.Errorf("the launcher was told %v", f)
			}
			s.MarkFailed(0, "a consequence")
			if f, ok := s.FirstFailure(); !ok || f.String() != tt.text {
				t.Errorf("the first failure became %v", f)
			}
			if _, err := rendezvous.Join(t.Context(), addr, member(1)); err == nil {
				t.Error("joined a failed job")
			}
		})
	}
}

func TestRootCauseWaitsNoLongerThanAsked(t *testing.T) {
	_, addr := serve(t, rendezvous.ServerConfig{WorldSize: 1})
	ss := join(t, addr, 1)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := ss.RootCause(ctx); err != nil {
		t.Errorf("root cause of a healthy job: %v", err)
	}
}

// raw opens a member's stream without the client's care: it says hello only.
func raw(t *testing.T, addr string, first *pb.Up) pb.Rendezvous_MemberClient {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})
	stream, err := pb.NewRendezvousClient(conn).Member(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(first); err != nil {
		t.Fatal(err)
	}
	return stream
}

func hello(rank uint32) *pb.Up {
	return &pb.Up{Kind: &pb.Up_Hello{Hello: &pb.Hello{Protocol: 1, RunId: "job", Rank: rank, Pid: 101}}}
}

// A rank that joined and then says nothing more is frozen.
func TestSilentRankIsNamed(t *testing.T) {
	_, addr := serve(t, rendezvous.ServerConfig{WorldSize: 2, HeartbeatTimeout: 400 * time.Millisecond})
	raw(t, addr, hello(1))
	ss, err := rendezvous.Join(t.Context(), addr, member(0))
	if err != nil {
		t.Fatal(err)
	}
	<-ss.Failed()
	f, _ := ss.Failure()
	if f.Rank != 1 || f.PID != 101 || !strings.Contains(f.Reason, "has not answered for 0.") {
		t.Errorf("got %v", f)
	}
	if err := ss.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestProtocolErrors(t *testing.T) {
	_, addr := serve(t, rendezvous.ServerConfig{WorldSize: 2})
	if _, err := raw(t, addr, &pb.Up{}).Recv(); err == nil || !strings.Contains(err.Error(), "must be a hello") {
		t.Errorf("no hello: %v", err)
	}
	other := hello(1)
	other.GetHello().Protocol = 9
	d, err := raw(t, addr, other).Recv()
	if err != nil || !strings.Contains(d.GetRefused().GetMessage(), "protocol 9, expected 1") {
		t.Errorf("other protocol: %v, %v", d, err)
	}
}

func TestJoinTimeoutNamesTheMissing(t *testing.T) {
	told := make(chan rendezvous.Failure, 1)
	s, addr := serve(t, rendezvous.ServerConfig{
		WorldSize: 4, JoinTimeout: 300 * time.Millisecond, OnFailure: func(f rendezvous.Failure) { told <- f },
	})
	errs := make([]error, 3)
	var ranks sync.WaitGroup
	for i, r := range []int{0, 2} {
		ranks.Go(func() { _, errs[i] = rendezvous.Join(t.Context(), addr, member(r)) })
	}
	ranks.Wait()
	_, errs[2] = s.Joined(t.Context())
	for i, err := range errs {
		var e *rendezvous.JoinTimeoutError
		if !errors.As(err, &e) || fmt.Sprint(e.Missing) != "[1 3]" || !e.Timeout() {
			t.Errorf("%d: %v, want missing 1 and 3", i, err)
		}
	}
	if f := <-told; fmt.Sprint(f.Missing) != "[1 3]" {
		t.Errorf("the launcher was told %+v", f)
	}
}

func TestStrangersAreRefusedAtOnce(t *testing.T) {
	s, addr := serve(t, rendezvous.ServerConfig{WorldSize: 2, Generation: 3})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	first := member(0)
	first.Generation = 3
	go func() {
		_, err := rendezvous.Join(ctx, addr, first)
		done <- err
	}()
	for len(s.Missing()) == 2 { // until rank 0 is in
		runtime.Gosched()
	}
	for name, tt := range map[string]struct {
		change func(*rendezvous.Member)
		as     any
	}{
		"run":        {func(m *rendezvous.Member) { m.RunID = "other" }, new(*rendezvous.StaleJobError)},
		"generation": {func(m *rendezvous.Member) { m.Generation = 2 }, new(*rendezvous.StaleJobError)},
		"world":      {func(m *rendezvous.Member) { m.WorldSize = 8 }, new(*rendezvous.WorldError)},
		"rank":       {func(m *rendezvous.Member) { m.Rank = 2 }, new(*rendezvous.WorldError)},
		"duplicate":  {func(m *rendezvous.Member) { m.PID = 7 }, new(*rendezvous.DuplicateRankError)},
		"invalid":    {func(m *rendezvous.Member) { m.Rank = -1 }, nil},
	} {
		m := first
		tt.change(&m)
		_, err := rendezvous.Join(t.Context(), addr, m)
		if tt.as == nil && !errors.Is(err, rendezvous.ErrConfig) || tt.as != nil && !errors.As(err, tt.as) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled join: %v", err)
	}
}

func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var e *rendezvous.UnreachableError
	if _, err := rendezvous.Join(t.Context(), addr, member(0)); !errors.As(err, &e) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

func TestServerGone(t *testing.T) {
	s, addr := serve(t, rendezvous.ServerConfig{WorldSize: 1})
	ss := join(t, addr, 1)[0]
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ss.Failed()
	if f, _ := ss.Failure(); f.Rank != rendezvous.Launcher || !strings.Contains(f.String(), "the launcher") {
		t.Errorf("got %v", f)
	}
	if _, err := s.Joined(t.Context()); err != nil {
		t.Errorf("Joined after Stop, with all joined: %v", err)
	}
}

func TestStopWhileJoining(t *testing.T) {
	s, addr := serve(t, rendezvous.ServerConfig{WorldSize: 2})
	done := make(chan error, 1)
	go func() {
		_, err := rendezvous.Join(t.Context(), addr, member(0))
		done <- err
	}()
	for len(s.Missing()) == 2 {
		runtime.Gosched()
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var e *rendezvous.UnreachableError
	if err := <-done; !errors.As(err, &e) {
		t.Errorf("the rank got %v", err)
	}
	if _, err := s.Joined(t.Context()); !errors.Is(err, rendezvous.ErrStopped) {
		t.Errorf("the launcher got %v", err)
	}
}

func TestServerConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]rendezvous.ServerConfig{
		"run":        {WorldSize: 1},
		"world":      {RunID: "a"},
		"generation": {RunID: "a", WorldSize: 1, Generation: -1},
		"job":        {RunID: "a", WorldSize: 1, Job: make([]byte, rendezvous.MaxJobBytes+1)},
		"timeout":    {RunID: "a", WorldSize: 1, JoinTimeout: -1},
	} {
		if _, err := rendezvous.NewServer(cfg); !errors.Is(err, rendezvous.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkJoin(b *testing.B) {
	for _, n := range []int{2, 16} {
		b.Run(fmt.Sprintf("P=%d", n), func(b *testing.B) {
			for b.Loop() {
				_, addr := serve(b, rendezvous.ServerConfig{WorldSize: n})
				for _, s := range join(b, addr, n) {
					if err := s.Leave(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func Example() {
	server, err := rendezvous.NewServer(rendezvous.ServerConfig{RunID: "job-1", WorldSize: 2, Job: []byte("spec")})
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go server.Serve(l)
	defer server.Stop(context.Background())

	var ranks sync.WaitGroup
	for rank := range 2 {
		ranks.Go(func() { // a process of its own, really
			s, err := rendezvous.Join(context.Background(), l.Addr().String(), rendezvous.Member{RunID: "job-1", Rank: rank})
			if err != nil {
				panic(err)
			}
			if w := s.World(); w.Rank == 1 {
				fmt.Printf("rank %d of %d got %q\n", w.Rank, w.Size, w.Job)
			}
			if err := s.Leave(context.Background()); err != nil {
				panic(err)
			}
		})
	}
	ranks.Wait()
	// Output: rank 1 of 2 got "spec"
}
