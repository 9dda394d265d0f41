package collective_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rejoin/collective"
	"rejoin/collective/collectivetest"
	"rejoin/collective/memtransport"
	"rejoin/collective/wire"
)

// values returns rank r's n test values, spread over magnitudes so that the
// order of summation shows.
func values(r, n int) []float32 {
	rng := rand.New(rand.NewPCG(uint64(r), 7))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(rng.NormFloat64() * math.Pow(10, float64(rng.IntN(7)-3)))
	}
	return out
}

func small(c *collective.Config) { c.SegmentBytes = 64 }

// settings are the segment sizes that take every way through allreduce.
var settings = map[string]collectivetest.Option{
	"default":     func(*collective.Config) {},
	"64 B pieces": small,
}

func TestAllReduceSameBitsAndRightValue(t *testing.T) {
	for name, option := range settings {
		for size := 1; size <= 8; size++ {
			for _, n := range []int{0, 1, 2, 3, 11, 64, 1000, 20000} {
				t.Run(fmt.Sprintf("%s/P=%d/n=%d", name, size, n), func(t *testing.T) {
					sums, means := make([][]float32, size), make([][]float32, size)
					collectivetest.Run(t, size, func(ctx context.Context, g *collective.Group) error {
						sums[g.Rank()], means[g.Rank()] = values(g.Rank(), n), values(g.Rank(), n)
						return errors.Join(g.AllReduceSum(ctx, sums[g.Rank()]), g.AllReduceMean(ctx, means[g.Rank()]))
					}, option)
					checkReduced(t, sums, means, n)
				})
			}
		}
	}
}

func checkReduced(t *testing.T, sums, means [][]float32, n int) {
	t.Helper()
	size := len(sums)
	inputs := make([][]float32, size)
	for r := range inputs {
		inputs[r] = values(r, n)
	}
	for i := range n {
		exact, magnitude := 0.0, 0.0
		for r := range size {
			exact += float64(inputs[r][i])
			magnitude += math.Abs(float64(inputs[r][i]))
		}
		for r := range size {
			if math.Float32bits(sums[r][i]) != math.Float32bits(sums[0][i]) || math.Float32bits(means[r][i]) != math.Float32bits(means[0][i]) {
				t.Fatalf("element %d differs between rank 0 and %d", i, r)
			}
		}
		tolerance := magnitude * float64(size) * 1e-7
		if math.Abs(float64(sums[0][i])-exact) > tolerance || math.Abs(float64(means[0][i])-exact/float64(size)) > tolerance {
			t.Fatalf("element %d: sum %g, mean %g; exact sum %g", i, sums[0][i], means[0][i], exact)
		}
	}
}

// With two ranks the mean is what torch's DistributedDataParallel over gloo
// computes: both products rounded, then one addition.
func TestAllReduceMeanOfTwoIsDDP(t *testing.T) {
	for _, n := range []int{5, 100_000} {
		collectivetest.Run(t, 2, func(ctx context.Context, g *collective.Group) error {
			buf := values(g.Rank(), n)
			if err := g.AllReduceMean(ctx, buf); err != nil {
				return err
			}
			a, b := values(0, n), values(1, n)
			for i := range buf {
				if want := float32(a[i]*0.5) + float32(b[i]*0.5); buf[i] != want {
					return fmt.Errorf("element %d: %g, want %g", i, buf[i], want)
				}
			}
			return nil
		})
	}
}

// A NaN's payload and the sign of zero are bits too.
func TestAllReduceKeepsSpecialBitsAlike(t *testing.T) {
	for _, size := range []int{2, 3, 4} {
		got := make([][]float32, size)
		collectivetest.Run(t, size, func(ctx context.Context, g *collective.Group) error {
			nan := math.Float32frombits(0x7fc00000 + uint32(g.Rank()))
			negZero := float32(math.Copysign(0, -1))
			got[g.Rank()] = []float32{nan, negZero, float32(math.Inf(1)), float32(math.Inf(g.Rank()%2*2 - 1))}
			return g.AllReduceSum(ctx, got[g.Rank()])
		})
		for r := range size {
			for i := range got[r] {
				if math.Float32bits(got[r][i]) != math.Float32bits(got[0][i]) {
					t.Errorf("P=%d element %d: %x on rank 0, %x on rank %d", size, i, math.Float32bits(got[0][i]), math.Float32bits(got[r][i]), r)
				}
			}
		}
		if z := got[0][1]; z != 0 || !math.Signbit(float64(z)) {
			t.Errorf("P=%d: the sum of negative zeros is %g", size, z)
		}
	}
}

func TestBroadcast(t *testing.T) {
	for name, option := range settings {
		for size := 1; size <= 5; size++ {
			for root := range size {
				t.Run(fmt.Sprintf("%s/P=%d/root=%d", name, size, root), func(t *testing.T) {
					collectivetest.Run(t, size, func(ctx context.Context, g *collective.Group) error {
						text := make([]byte, 300)
						floats := make([]float32, 1000)
						if g.Rank() == root {
							copy(text, "from the root")
							copy(floats, values(root, 1000))
						}
						if err := errors.Join(g.Broadcast(ctx, text, root), g.BroadcastFloat32(ctx, floats, root)); err != nil {
							return err
						}
						if string(text[:13]) != "from the root" {
							return fmt.Errorf("got %q", text[:13])
						}
						for i, want := range values(root, 1000) {
							if floats[i] != want {
								return fmt.Errorf("element %d: %g, want %g", i, floats[i], want)
							}
						}
						return nil
					}, option)
				})
			}
		}
	}
}

func TestAllGatherOfDifferentSizes(t *testing.T) {
	for name, option := range settings {
		for size := 1; size <= 6; size++ {
			t.Run(fmt.Sprintf("%s/P=%d", name, size), func(t *testing.T) {
				collectivetest.Run(t, size, func(ctx context.Context, g *collective.Group) error {
					part := func(r int) string { return strings.Repeat(string(rune('a'+r)), r*100) }
					got, err := g.AllGather(ctx, []byte(part(g.Rank())))
					if err != nil {
						return err
					}
					for r := range size {
						if string(got[r]) != part(r) {
							return fmt.Errorf("part %d is %q", r, got[r])
						}
					}
					got[0] = append(got[0], "beyond"...) // must not reach into part 1
					if size > 1 && len(got[1]) > 0 && got[1][0] != 'b' {
						return errors.New("the parts share memory")
					}
					return nil
				}, option)
			})
		}
	}
}

func TestAllGatherRefusesTooMuchOnAllRanksAndGoesOn(t *testing.T) {
	collectivetest.Run(t, 3, func(ctx context.Context, g *collective.Group) error {
		_, err := g.AllGather(ctx, make([]byte, 50))
		var e *collective.SizeError
		if !errors.As(err, &e) || e.Sizes[2] != 50 || e.Limit != 100 {
			return fmt.Errorf("got %w, want a SizeError", err)
		}
		got, err := g.AllGather(ctx, make([]byte, 30))
		if err == nil && len(got[2]) != 30 {
			err = errors.New("wrong part")
		}
		return err
	}, func(c *collective.Config) { c.MaxGatherBytes = 100 })
}

func TestBarrierHoldsEveryone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		collectivetest.Run(t, 5, func(ctx context.Context, g *collective.Group) error {
			start := time.Now()
			if g.Rank() == 3 {
				<-time.After(7 * time.Second)
			}
			if err := g.Barrier(ctx); err != nil {
				return err
			}
			if held := time.Since(start); held != 7*time.Second {
				return fmt.Errorf("held for %v", held)
			}
			return nil
		})
	})
}

// Calls that differ must be named on every rank, and a reduction's data
// must be as it was.
func TestMismatchIsNamedOnEveryRank(t *testing.T) {
	type call func(ctx context.Context, g *collective.Group, buf []float32) error
	for name, odd := range map[string]call{
		"one element more": func(ctx context.Context, g *collective.Group, buf []float32) error {
			return g.AllReduceSum(ctx, append(buf, 1))
		},
		"mean for sum": func(ctx context.Context, g *collective.Group, buf []float32) error {
			return g.AllReduceMean(ctx, buf)
		},
		"broadcast for sum": func(ctx context.Context, g *collective.Group, buf []float32) error {
			return g.BroadcastFloat32(ctx, buf, 0)
		},
		"barrier for sum": func(ctx context.Context, g *collective.Group, buf []float32) error { return g.Barrier(ctx) },
	} {
		for size := 2; size <= 5; size++ {
			for _, n := range []int{10, 40_000} {
				t.Run(fmt.Sprintf("%s/P=%d/n=%d", name, size, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						disagree(t, size, n, name == "broadcast for sum", odd)
					})
				})
			}
		}
	}
}

// disagree lets the last rank make an odd call where the others sum n values.
func disagree(t *testing.T, size, n int, spoilsOwn bool, odd func(ctx context.Context, g *collective.Group, buf []float32) error) {
	t.Helper()
	bufs := make([][]float32, size)
	errs := collectivetest.Each(t, memtransport.New(size, nil), size, func(ctx context.Context, g *collective.Group) error {
		bufs[g.Rank()] = values(g.Rank(), n)
		if g.Rank() == size-1 {
			return odd(ctx, g, bufs[g.Rank()])
		}
		return g.AllReduceSum(ctx, bufs[g.Rank()])
	})
	for r, err := range errs {
		var m *collective.MismatchError
		if !errors.As(err, &m) || m.Calls[1].Rank != size-1 || m.Calls[0].Fingerprint == m.Calls[1].Fingerprint {
			t.Errorf("rank %d: %v, want a MismatchError that names rank %d", r, err, size-1)
		}
		if spoilsOwn && r == size-1 {
			continue
		}
		for i, want := range values(r, n) {
			if bufs[r][i] != want {
				t.Fatalf("rank %d: element %d was changed", r, i)
			}
		}
	}
}

func TestMismatchOfSegmentSize(t *testing.T) {
	errs := collectivetest.Each(t, memtransport.New(2, nil), 2, func(ctx context.Context, g *collective.Group) error {
		return g.AllReduceSum(ctx, make([]float32, 1000))
	}, func(c *collective.Config) { c.SegmentBytes = 1000 * (c.Rank + 1) })
	for r, err := range errs {
		var m *collective.MismatchError
		if !errors.As(err, &m) || !strings.Contains(err.Error(), "segment size") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestOtherGenerationIsRefused(t *testing.T) {
	errs := collectivetest.Each(t, memtransport.New(2, nil), 2, func(ctx context.Context, g *collective.Group) error {
		return g.Barrier(ctx)
	}, func(c *collective.Config) { c.Generation = uint64(c.Rank) })
	for r, err := range errs {
		var m *collective.MismatchError
		if !errors.As(err, &m) || m.Calls[0].Generation == m.Calls[1].Generation {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestOneOperationAtATime(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	net := memtransport.New(2, func(_ context.Context, from, to int, m *wire.Message) bool {
		if from == 0 {
			once.Do(func() { close(entered) })
		} else {
			<-release // keeps rank 0 in its barrier
		}
		return true
	})
	errs := collectivetest.Each(t, net, 2, func(ctx context.Context, g *collective.Group) error {
		if g.Rank() == 1 {
			return g.Barrier(ctx)
		}
		done := make(chan error, 1)
		go func() { done <- g.Barrier(ctx) }()
		<-entered
		busy := g.Barrier(ctx)
		close(release)
		if !errors.Is(busy, collective.ErrBusy) {
			return fmt.Errorf("got %w, want ErrBusy", busy)
		}
		return <-done
	})
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	end := memtransport.New(2, nil).Endpoint(0)
	for name, cfg := range map[string]collective.Config{
		"size":      {},
		"rank":      {Rank: 2, Size: 2, Transport: end},
		"negative":  {Rank: -1, Size: 2, Transport: end},
		"transport": {Size: 2},
		"timeout":   {Size: 1, Timeout: -1},
		"segment":   {Size: 1, SegmentBytes: 4},
		"large":     {Size: 1, SegmentBytes: collective.MaxSegmentBytes + 1},
		"gather":    {Size: 1, MaxGatherBytes: -1},
	} {
		if _, err := collective.New(cfg); !errors.Is(err, collective.ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
	}
	g, err := collective.New(collective.Config{Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Broadcast(t.Context(), nil, 1); !errors.Is(err, collective.ErrConfig) {
		t.Errorf("root out of range: %v", err)
	}
	if err := errors.Join(g.Close(), g.Close()); err != nil {
		t.Error(err)
	}
	if err := g.Barrier(t.Context()); !errors.Is(err, collective.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func Example() {
	net := memtransport.New(2, nil)
	var ranks sync.WaitGroup
	for rank := range 2 {
		ranks.Go(func() {
			g, err := collective.New(collective.Config{Rank: rank, Size: 2, Transport: net.Endpoint(rank)})
			if err != nil {
				panic(err)
			}
			defer g.Close()
			gradient := []float32{1, float32(rank)}
			if err := g.AllReduceMean(context.Background(), gradient); err != nil {
				panic(err)
			}
			if rank == 0 {
				fmt.Println(gradient)
			}
		})
	}
	ranks.Wait()
	// Output: [1 0.5]
}
