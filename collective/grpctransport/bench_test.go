package grpctransport_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"rejoin/collective"
	"rejoin/collective/grpctransport"
)

// networks are the ways that groups can be connected: over loopback, a unix
// socket with a file, what ListenLocal gives, and the last without shared memory.
var networks = []string{"tcp", "unix", "local", "grpc"}

// groups makes size connected groups over one of the networks.
func groups(tb testing.TB, size int, network string, change func(*collective.Config)) []*collective.Group {
	tb.Helper()
	listeners, peers := make([]net.Listener, size), make([]string, size)
	for r := range size {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		switch network {
		case "unix":
			l, err = net.Listen("unix", fmt.Sprintf("%s/r%d", tb.TempDir(), r))
		case "local", "grpc":
			l, err = grpctransport.ListenLocal(context.Background())
		}
		if err != nil {
			tb.Fatal(err)
		}
		listeners[r], peers[r] = l, grpctransport.Address(l)
	}
	out := make([]*collective.Group, size)
	for r := range size {
		tr, err := grpctransport.New(grpctransport.Config{Rank: r, Peers: peers, Listener: listeners[r], RunID: tb.Name(), Generation: 3, NoSharedMemory: network == "grpc"})
		if err != nil {
			tb.Fatal(err)
		}
		cfg := collective.Config{Rank: r, Size: size, Generation: 3, Transport: tr}
		if change != nil {
			change(&cfg)
		}
		if out[r], err = collective.New(cfg); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(func() {
		var all sync.WaitGroup
		for _, g := range out {
			all.Go(func() {
				if err := g.Close(); err != nil {
					tb.Error(err)
				}
			})
		}
		all.Wait()
	})
	return out
}

func BenchmarkAllReduce(b *testing.B) {
	for _, network := range []string{"grpc", "local"} {
		for _, size := range []int{2, 4} {
			for _, bytes := range []int{4, 44, 4 << 10, 64 << 10, 256 << 10, 4 << 20, 64 << 20} {
				b.Run(fmt.Sprintf("%s/P=%d/%dB", network, size, bytes), func(b *testing.B) {
					benchmark(b, groups(b, size, network, nil), bytes)
				})
			}
		}
	}
}

func benchmark(b *testing.B, gs []*collective.Group, bytes int) {
	b.Helper()
	bufs := make([][]float32, len(gs))
	for r := range bufs {
		bufs[r] = make([]float32, bytes/4)
	}
	all := func(n int) {
		var ranks sync.WaitGroup
		for r, g := range gs {
			ranks.Go(func() {
				for range n {
					if err := g.AllReduceSum(b.Context(), bufs[r]); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		ranks.Wait()
	}
	all(3)
	b.ResetTimer()
	all(b.N)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "µs/op")
	b.ReportMetric(float64(bytes)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
}
