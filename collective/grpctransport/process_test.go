package grpctransport_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rejoin/collective"
	"rejoin/collective/grpctransport"
	"rejoin/rendezvous"
)

// The test binary is also the worker: with REJOIN_TEST_RANK set it is a rank
// that reduces until something stops it.
func TestMain(m *testing.M) {
	if os.Getenv("REJOIN_TEST_RANK") != "" {
		os.Exit(worker())
	}
	os.Exit(m.Run())
}

// worker says "running" once it is among its steps, and how it ended.
func worker() int {
	rank, err := strconv.Atoi(os.Getenv("REJOIN_TEST_RANK"))
	if err != nil {
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err = work(ctx, rank)
	named := -1
	var f interface{ FailedRank() int }
	if errors.As(err, &f) {
		named = f.FailedRank()
	}
	fmt.Printf("ended, rank %d is to blame: %v\n", named, err)
	return 3
}

func work(ctx context.Context, rank int) error {
	l, err := grpctransport.ListenLocal(context.Background())
	if err != nil {
		return err
	}
	s, err := rendezvous.Join(ctx, os.Getenv("REJOIN_TEST_SERVER"), rendezvous.Member{
		RunID: "processes", Rank: rank, PID: os.Getpid(), Addr: grpctransport.Address(l),
	})
	if err != nil {
		return err
	}
	w := s.World()
	tr, err := grpctransport.New(grpctransport.Config{
		Rank: rank, Peers: w.Addrs(), Listener: l, RunID: w.RunID,
		KeepaliveTime: time.Second, KeepaliveTimeout: time.Second,
		NoSharedMemory: os.Getenv("REJOIN_TEST_GRPC") != "",
	})
	if err != nil {
		return err
	}
	cfg := collective.Config{Rank: rank, Size: w.Size, Transport: tr, SegmentBytes: 64 << 10}
	if string(w.Job) == "launcher" {
		cfg.RootCause = s.RootCause
	}
	g, err := collective.New(cfg)
	if err != nil {
		return err
	}
	defer g.Close()
	if cfg.RootCause != nil {
		go func() {
			<-s.Failed()
			g.Abort(s.RootCause(ctx))
		}()
	}
	buf := make([]float32, 500_000)
	for i := 0; ; i++ {
		if i == 3 {
			fmt.Println("running")
		}
		if err := g.AllReduceMean(ctx, buf); err != nil {
			return err
		}
	}
}

// process is a rank.
type process struct {
	cmd     *exec.Cmd
	running chan struct{} // closed when it says so
	ended   chan struct{} // closed when it is gone
	output  bytes.Buffer  // complete when ended
}

func start(t *testing.T, server string, rank int) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), running: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "REJOIN_TEST_RANK="+strconv.Itoa(rank), "REJOIN_TEST_SERVER="+server)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "running" {
				close(p.running)
			}
			p.output.WriteString(lines.Text() + "\n")
		}
		_ = p.cmd.Wait() // it exits 3, or by a signal
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // may be gone
		<-p.ended
	})
	return p
}

// TestDeadAndFrozenProcesses ends or stops one of P processes in the midst of
// its reductions. Every other must end in time with an error that names it,
// whether the launcher explains it or the ranks are on their own, and whether
// payloads are in memory shared with it or not.
func TestDeadAndFrozenProcesses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		signal syscall.Signal
		within time.Duration
	}{
		{"SIGKILL", syscall.SIGKILL, 2 * time.Second},
		{"SIGSTOP", syscall.SIGSTOP, 10 * time.Second},
	} {
		for _, size := range []int{2, 3, 4} {
			for _, helped := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/P=%d/launcher=%v", tt.name, size, helped), func(t *testing.T) {
					strike(t, size, helped, tt.signal, tt.within)
				})
			}
		}
		t.Run(tt.name+"/no shared memory", func(t *testing.T) {
			t.Setenv("REJOIN_TEST_GRPC", "1")
			strike(t, 3, false, tt.signal, tt.within)
		})
	}
}

func strike(t *testing.T, size int, helped bool, signal syscall.Signal, within time.Duration) {
	t.Helper()
	cfg := rendezvous.ServerConfig{RunID: "processes", WorldSize: size, HeartbeatTimeout: time.Second}
	if helped {
		cfg.Job = []byte("launcher")
	}
	server, addr := serveRendezvous(t, cfg)
	victim := size - 1
	ps := make([]*process, size)
	for r := range ps {
		ps[r] = start(t, addr, r)
	}
	for r, p := range ps {
		select {
		case <-p.running:
		case <-p.ended:
			t.Fatalf("rank %d ended early: %s", r, &p.output)
		}
	}
	began := time.Now()
	if err := ps[victim].cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	if signal == syscall.SIGKILL && helped {
		<-ps[victim].ended
		server.MarkFailed(victim, "killed by signal 9 (SIGKILL)")
	}
	deadline := time.After(within - time.Since(began))
	for r, p := range ps[:victim] {
		select {
		case <-p.ended:
			checkEnd(t, r, p, victim, helped, signal)
		case <-deadline:
			t.Fatalf("rank %d still runs %v after the signal", r, within)
		}
	}
	t.Logf("all %d survivors ended after %v", victim, time.Since(began).Round(time.Millisecond))
}

func checkEnd(t *testing.T, r int, p *process, victim int, helped bool, signal syscall.Signal) {
	t.Helper()
	end := p.output.String()
	if !strings.Contains(end, fmt.Sprintf("rank %d is to blame", victim)) || p.cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("rank %d: exit code %d, %s; want rank %d named", r, p.cmd.ProcessState.ExitCode(), end, victim)
	}
	why := "killed by signal 9"
	if signal == syscall.SIGSTOP {
		why = "stopped"
	}
	if helped && !strings.Contains(end, why) {
		t.Errorf("rank %d does not say why: %s", r, end)
	}
}

func serveRendezvous(t *testing.T, cfg rendezvous.ServerConfig) (*rendezvous.Server, string) {
	t.Helper()
	s, err := rendezvous.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	return s, l.Addr().String()
}
