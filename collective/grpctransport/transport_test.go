package grpctransport_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rejoin/collective"
	"rejoin/collective/grpctransport"
)

// each runs f on every group at once and returns what each returned.
func each(tb testing.TB, gs []*collective.Group, f func(ctx context.Context, g *collective.Group) error) []error {
	tb.Helper()
	errs := make([]error, len(gs))
	var ranks sync.WaitGroup
	for r, g := range gs {
		ranks.Go(func() { errs[r] = f(tb.Context(), g) })
	}
	ranks.Wait()
	return errs
}

func TestOperations(t *testing.T) {
	for _, network := range networks {
		for _, size := range []int{2, 3, 4} {
			t.Run(fmt.Sprintf("%s/P=%d", network, size), func(t *testing.T) {
				gs := groups(t, size, network, func(c *collective.Config) { c.SegmentBytes = 40 << 10 })
				errs := each(t, gs, func(ctx context.Context, g *collective.Group) error {
					for _, n := range []int{0, 1, 11, 16_385, 300_000} {
						if err := exercise(ctx, g, n); err != nil {
							return fmt.Errorf("length %d: %w", n, err)
						}
					}
					return nil
				})
				for r, err := range errs {
					if err != nil {
						t.Errorf("rank %d: %v", r, err)
					}
				}
			})
		}
	}
}

// exercise runs every operation on n elements and checks the values, which are
// small integers and so exact in any order.
func exercise(ctx context.Context, g *collective.Group, n int) error {
	size := g.Size()
	buf := make([]float32, n)
	for i := range buf {
		buf[i] = float32(i%100 + g.Rank())
	}
	if err := g.AllReduceSum(ctx, buf); err != nil {
		return err
	}
	for i, v := range buf {
		if want := float32(i%100*size + size*(size-1)/2); v != want {
			return fmt.Errorf("element %d of the sum is %g, want %g", i, v, want)
		}
	}
	if g.Rank() == 1 {
		buf = append(buf[:0], make([]float32, n)...)
	}
	if err := g.BroadcastFloat32(ctx, buf, 0); err != nil {
		return err
	}
	for i, v := range buf {
		if want := float32(i%100*size + size*(size-1)/2); v != want {
			return fmt.Errorf("element %d of the broadcast is %g, want %g", i, v, want)
		}
	}
	parts, err := g.AllGather(ctx, []byte(strings.Repeat(string(rune('a'+g.Rank())), n/(g.Rank()+1))))
	if err != nil {
		return err
	}
	for r, p := range parts {
		if string(p) != strings.Repeat(string(rune('a'+r)), n/(r+1)) {
			return fmt.Errorf("part %d of the gather is wrong", r)
		}
	}
	return g.Barrier(ctx)
}

// What was sent before Close still arrives: rank 1 leaves at once.
func TestCloseDeliversWhatWasSent(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) { closeDelivers(t, groups(t, 2, network, nil)) })
	}
}

func closeDelivers(t *testing.T, gs []*collective.Group) {
	t.Helper()
	buf := make([]float32, 2_000_000)
	errs := each(t, gs, func(ctx context.Context, g *collective.Group) error {
		mine := buf
		if g.Rank() == 1 {
			mine = make([]float32, len(buf))
			mine[len(mine)-1] = 5
		}
		err := g.AllReduceSum(ctx, mine)
		if g.Rank() == 1 {
			err = errors.Join(err, g.Close())
		}
		return err
	})
	if err := errors.Join(errs...); err != nil || buf[len(buf)-1] != 5 {
		t.Fatalf("%v; last element %g", err, buf[len(buf)-1])
	}
	err := gs[0].Barrier(t.Context())
	var p *collective.PeerError
	if !errors.As(err, &p) || p.Rank != 1 || !errors.Is(err, collective.ErrPeerLeft) {
		t.Errorf("after rank 1 left: %v", err)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*grpctransport.Config)
		text   string
	}{
		"other run":        {func(c *grpctransport.Config) { c.RunID = "other" }, `run "other", expected "this"`},
		"other generation": {func(c *grpctransport.Config) { c.Generation = 7 }, `generation "7", expected 0`},
	} {
		t.Run(name, func(t *testing.T) {
			gs := pair(t, tt.change)
			errs := each(t, gs, func(ctx context.Context, g *collective.Group) error { return g.Barrier(ctx) })
			var p *collective.PeerError
			if !errors.As(errs[1], &p) || !strings.Contains(errs[1].Error(), tt.text) {
				t.Errorf("the stranger got %v, want %q", errs[1], tt.text)
			}
			if errs[0] == nil {
				t.Error("rank 0 met a stranger and did not mind")
			}
		})
	}
}

// pair makes two groups of run "this", of which change spoils rank 1's.
func pair(t *testing.T, change func(*grpctransport.Config)) []*collective.Group {
	t.Helper()
	var gs []*collective.Group
	listeners, peers := listen(t, 2)
	for r := range 2 {
		cfg := grpctransport.Config{Rank: r, Peers: peers, Listener: listeners[r], RunID: "this"}
		if r == 1 && change != nil {
			change(&cfg)
		}
		tr, err := grpctransport.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		g, err := collective.New(collective.Config{Rank: r, Size: 2, Transport: tr, Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close() })
		gs = append(gs, g)
	}
	return gs
}

func listen(t *testing.T, n int) ([]net.Listener, []string) {
	t.Helper()
	var ls []net.Listener
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ls, addrs = append(ls, l), append(addrs, grpctransport.Address(l))
	}
	return ls, addrs
}

func TestUnreachablePeerIsNamed(t *testing.T) {
	ls, peers := listen(t, 2)
	if err := ls[1].Close(); err != nil { // nobody there
		t.Fatal(err)
	}
	tr, err := grpctransport.New(grpctransport.Config{Rank: 0, Peers: peers, Listener: ls[0], ConnectTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	g, err := collective.New(collective.Config{Rank: 0, Size: 2, Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var p *collective.PeerError
	if err := g.Barrier(t.Context()); !errors.As(err, &p) || p.Rank != 1 || !strings.Contains(err.Error(), peers[1]) {
		t.Errorf("got %v, want a PeerError of rank 1 at %s", err, peers[1])
	}
}

func TestConfigIsChecked(t *testing.T) {
	ls, peers := listen(t, 3)
	for name, cfg := range map[string]grpctransport.Config{
		"rank":     {Rank: 3, Peers: peers, Listener: ls[0]},
		"listener": {Rank: 0, Peers: peers},
		"address":  {Rank: 0, Peers: []string{"", ""}, Listener: ls[1]},
		"time":     {Rank: 0, Peers: peers, Listener: ls[2], KeepaliveTime: -1},
	} {
		if _, err := grpctransport.New(cfg); !errors.Is(err, grpctransport.ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
	}
}

func TestAddress(t *testing.T) {
	at := t.TempDir() + "/s"
	for _, tt := range []struct{ network, at, want string }{
		{"tcp", "127.0.0.1:0", "127.0.0.1:"},
		{"unix", at, "unix:" + at},
		{"local", "", map[bool]string{true: "unix-abstract:rejoin-", false: "127.0.0.1:"}[runtime.GOOS == "linux"]},
	} {
		l, err := grpctransport.ListenLocal(context.Background())
		if tt.network != "local" {
			l, err = net.Listen(tt.network, tt.at)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := grpctransport.Address(l); !strings.HasPrefix(got, tt.want) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Groups leave no goroutines and no shared memory behind once they are closed.
func TestNoGoroutineOutlivesItsGroup(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			gs := groups(t, 3, network, nil)
			errs := each(t, gs, func(ctx context.Context, g *collective.Group) error { return exercise(ctx, g, 10_000) })
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
		})
	}
	checkNoGoroutines(t, "rejoin/collective.(*", "rejoin/collective/grpctransport.(*", "google.golang.org/grpc")
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil && strings.Contains(string(maps), "memfd:rejoin") {
		t.Errorf("shared memory is still mapped:\n%s", maps)
	}
}

// A peer that takes nothing fills the shared memory, then its mailbox and the
// connection's window; the sender's deadline holds all the same.
func TestFullBuffersKeepTheDeadline(t *testing.T) {
	for _, network := range []string{"local", "grpc"} {
		t.Run(network, func(t *testing.T) {
			gs := groups(t, 2, network, func(c *collective.Config) { c.Timeout, c.Grace = time.Second, 50*time.Millisecond })
			if err := errors.Join(each(t, gs, func(ctx context.Context, g *collective.Group) error { return g.Barrier(ctx) })...); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			var late *collective.DeadlineError
			if err := gs[0].Broadcast(t.Context(), make([]byte, 100<<20), 0); !errors.As(err, &late) || late.Rank != 1 {
				t.Errorf("got %v, want a DeadlineError of rank 1", err)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Shared memory changes no bit, and groups of one process do not meet in it.
func TestSameBitsWithAndWithoutSharedMemory(t *testing.T) {
	for _, size := range []int{2, 3, 4} {
		t.Run(fmt.Sprintf("P=%d", size), func(t *testing.T) {
			results := make([][][]float32, 3)
			var all sync.WaitGroup
			for i, network := range []string{"grpc", "local", "local"} {
				gs := groups(t, size, network, nil)
				all.Go(func() { results[i] = reduceAll(t, gs) })
			}
			all.Wait()
			for i, run := range results[1:] {
				for k := range run {
					if !slices.EqualFunc(run[k], results[0][k], func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
						t.Errorf("run %d: result %d has other bits through shared memory", i+1, k)
					}
				}
			}
		})
	}
}

// reduceAll returns every rank's sums and means of several lengths.
func reduceAll(t *testing.T, gs []*collective.Group) [][]float32 {
	t.Helper()
	lengths := []int{1, 1000, 16_384, 16_385, 262_145, 1_000_003}
	out := make([][]float32, 2*len(lengths)*len(gs))
	errs := each(t, gs, func(ctx context.Context, g *collective.Group) error {
		r := rand.New(rand.NewPCG(1, uint64(g.Rank())))
		mine := out[2*len(lengths)*g.Rank():]
		for i, n := range lengths {
			sum := make([]float32, n)
			for i := range sum {
				sum[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(30)-15)))
			}
			mean := slices.Clone(sum)
			if err := errors.Join(g.AllReduceSum(ctx, sum), g.AllReduceMean(ctx, mean)); err != nil {
				return err
			}
			mine[2*i], mine[2*i+1] = sum, mean
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	return out
}

// checkNoGoroutines fails the test if a goroutine stays in code whose function
// names begin with one of the prefixes.
func checkNoGoroutines(t *testing.T, prefixes ...string) {
	t.Helper()
	var stacks []string
	buf := make([]byte, 1<<20)
	for range 10_000 { // one that is done may not have ended yet
		stacks = stacks[:0]
		for s := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.Contains(s, "\n"+p) }) {
				stacks = append(stacks, s)
			}
		}
		if len(stacks) == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines are left:\n%s", len(stacks), strings.Join(stacks, "\n\n"))
}
