package collective_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rejoin/collective"
	"rejoin/collective/collectivetest"
	"rejoin/collective/memtransport"
	"rejoin/collective/wire"
)

// freeze is a hook under which nothing more leaves rank once stopped is set,
// as if its process had been stopped.
func freeze(rank int, stopped *atomic.Bool) memtransport.Hook {
	return func(ctx context.Context, from, to int, _ *wire.Message) bool {
		if (from == rank || to == rank) && stopped.Load() {
			<-ctx.Done()
			return false
		}
		return true
	}
}

// A rank that never makes the call is named by every other rank when the
// deadline is over, also by those that waited for one that waited for it.
func TestDeadlineNamesTheLateRank(t *testing.T) {
	calls := map[string]func(ctx context.Context, g *collective.Group) error{
		"barrier": func(ctx context.Context, g *collective.Group) error { return g.Barrier(ctx) },
		"small":   func(ctx context.Context, g *collective.Group) error { return g.AllReduceSum(ctx, make([]float32, 3)) },
		"ring": func(ctx context.Context, g *collective.Group) error {
			return g.AllReduceSum(ctx, make([]float32, 50_000))
		},
		"broadcast": func(ctx context.Context, g *collective.Group) error {
			if err := g.Broadcast(ctx, make([]byte, 3), 0); err != nil {
				return err
			}
			return g.Barrier(ctx) // a leaf is done without the others
		},
		"allgather": func(ctx context.Context, g *collective.Group) error { _, err := g.AllGather(ctx, nil); return err },
	}
	for name, call := range calls {
		for _, size := range []int{2, 3, 4, 7} {
			for late := range size {
				t.Run(fmt.Sprintf("%s/P=%d/late=%d", name, size, late), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						start := time.Now()
						errs := collectivetest.Each(t, memtransport.New(size, nil), size, func(ctx context.Context, g *collective.Group) error {
							if g.Rank() == late {
								<-time.After(time.Minute)
								return nil
							}
							err := call(ctx, g)
							if took := time.Since(start); took > 11*time.Second {
								t.Errorf("rank %d returned after %v", g.Rank(), took)
							}
							return err
						}, func(c *collective.Config) { c.Timeout = 10 * time.Second })
						for r, err := range errs {
							var d *collective.DeadlineError
							if r != late && (!errors.As(err, &d) || d.Rank != late || d.After != 10*time.Second) {
								t.Errorf("rank %d: %v, want a DeadlineError that names rank %d", r, err, late)
							}
						}
					})
				})
			}
		}
	}
}

// The same when the rank is in the call but frozen, and answers nothing.
func TestDeadlineNamesTheFrozenRank(t *testing.T) {
	for _, size := range []int{2, 3, 4} {
		t.Run(fmt.Sprintf("P=%d", size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stopped atomic.Bool
				errs := collectivetest.Each(t, memtransport.New(size, freeze(1, &stopped)), size, func(ctx context.Context, g *collective.Group) error {
					for i := range 10 {
						if i == 5 && g.Rank() == 1 {
							stopped.Store(true)
						}
						if err := g.AllReduceSum(ctx, make([]float32, 50_000)); err != nil {
							return err
						}
					}
					return nil
				}, func(c *collective.Config) { c.Timeout = 10 * time.Second })
				for r, err := range errs {
					if r == 1 {
						continue
					}
					var d *collective.DeadlineError
					if !errors.As(err, &d) || d.Rank != 1 {
						t.Errorf("rank %d: %v, want a DeadlineError that names rank 1", r, err)
					}
				}
			})
		})
	}
}

// A peer that sends a segment now and then does not extend the deadline, which
// is the operation's.
func TestDribblingPeerHitsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		dribble := func(ctx context.Context, from, to int, m *wire.Message) bool {
			if from == 1 && m.Kind == wire.Data {
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
				}
			}
			return true
		}
		errs := collectivetest.Each(t, memtransport.New(2, dribble), 2, func(ctx context.Context, g *collective.Group) error {
			err := g.AllReduceSum(ctx, make([]float32, 1600)) // 100 segments
			if took := time.Since(start); took > time.Second {
				t.Errorf("rank %d returned after %v", g.Rank(), took)
			}
			return err
		}, small, func(c *collective.Config) { c.Timeout = 300 * time.Millisecond })
		var d *collective.DeadlineError
		if !errors.As(errs[0], &d) || d.Rank != 1 || !d.Timeout() {
			t.Errorf("rank 0: %v", errs[0])
		}
	})
}

// Ranks that wait for each other in different calls find out long before the
// deadline.
func TestDifferentCallsThatOnlyWaitAreCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		errs := collectivetest.Each(t, memtransport.New(2, nil), 2, func(ctx context.Context, g *collective.Group) error {
			return g.Broadcast(ctx, make([]byte, 4), 1-g.Rank()) // each waits for the other
		})
		for r, err := range errs {
			var m *collective.MismatchError
			if !errors.As(err, &m) || m.Calls[0].Root == m.Calls[1].Root {
				t.Errorf("rank %d: %v", r, err)
			}
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestKilledRankIsNamedByAll(t *testing.T) {
	for _, size := range []int{2, 3, 4, 8} {
		t.Run(fmt.Sprintf("P=%d", size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				victim := size - 1
				net := memtransport.New(size, nil)
				start := time.Now()
				errs := collectivetest.Each(t, net, size, func(ctx context.Context, g *collective.Group) error {
					for i := range 10 {
						if g.Rank() == victim && i == 5 {
							net.Kill(victim)
						}
						if err := g.AllReduceSum(ctx, make([]float32, 20_000)); err != nil {
							return err
						}
					}
					return nil
				})
				for r, err := range errs {
					var p *collective.PeerError
					if r != victim && (!errors.As(err, &p) || p.Rank != victim || p.FailedRank() != victim || p.Seq == 0 || p.Op != "allreduce sum") {
						t.Errorf("rank %d: %v, want a PeerError that names rank %d", r, err, victim)
					}
				}
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// causeError is what a rendezvous would say.
type causeError struct{ rank int }

func (e *causeError) Error() string   { return fmt.Sprintf("rank %d was killed by signal 9", e.rank) }
func (e *causeError) FailedRank() int { return e.rank }

// When the rendezvous knows better than the broken connection, it is believed,
// and the group need not wait for the whole grace.
func TestRootCauseFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memtransport.New(3, nil)
		errs := collectivetest.Each(t, net, 3, func(ctx context.Context, g *collective.Group) error {
			if g.Rank() == 2 {
				net.Kill(2)
				return nil
			}
			start := time.Now()
			err := g.Barrier(ctx)
			if took := time.Since(start); took != 30*time.Millisecond {
				t.Errorf("rank %d: took %v", g.Rank(), took)
			}
			return err
		}, func(c *collective.Config) {
			c.Grace = time.Second
			c.RootCause = func(ctx context.Context) error {
				select {
				case <-time.After(30 * time.Millisecond):
					return &causeError{2}
				case <-ctx.Done():
					return nil
				}
			}
		})
		for r, err := range errs[:2] {
			var p *collective.PeerError
			var cause *causeError
			if !errors.As(err, &p) || p.Rank != 2 || r == 0 && !errors.As(err, &cause) && !strings.Contains(err.Error(), "signal 9") {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	})
}

func TestAbortUnblocksEveryRankAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("loss is NaN")
		start := time.Now()
		errs := collectivetest.Each(t, memtransport.New(3, nil), 3, func(ctx context.Context, g *collective.Group) error {
			if g.Rank() == 1 {
				synctest.Wait() // the others are in the barrier
				g.Abort(cause)
				g.Abort(errors.New("second thoughts"))
			}
			first := g.Barrier(ctx)
			if again := g.AllReduceSum(ctx, nil); again == nil || again.Error() != first.Error() {
				t.Errorf("rank %d: then %v, now %v", g.Rank(), first, again)
			}
			return first
		})
		if time.Since(start) != 0 {
			t.Errorf("took %v", time.Since(start))
		}
		if !errors.Is(errs[1], cause) {
			t.Errorf("rank 1: %v", errs[1])
		}
		for _, r := range []int{0, 2} {
			var p *collective.PeerError
			if !errors.As(errs[r], &p) || p.Rank != 1 || !strings.Contains(p.Error(), "loss is NaN") {
				t.Errorf("rank %d: %v", r, errs[r])
			}
		}
	})
}

// An abort because of another rank's failure names that rank everywhere.
func TestAbortPassesTheRootCauseOn(t *testing.T) {
	errs := collectivetest.Each(t, memtransport.New(3, nil), 3, func(ctx context.Context, g *collective.Group) error {
		if g.Rank() == 0 {
			g.Abort(&causeError{2})
		}
		return g.Barrier(ctx)
	})
	var p *collective.PeerError
	if !errors.As(errs[1], &p) || p.Rank != 2 {
		t.Errorf("rank 1: %v, want rank 2 named", errs[1])
	}
}

func TestCancelledCallerEndsTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := collectivetest.Each(t, memtransport.New(2, nil), 2, func(ctx context.Context, g *collective.Group) error {
			if g.Rank() == 0 {
				cancelled, cancel := context.WithCancel(ctx)
				cancel()
				if err := g.Barrier(cancelled); !errors.Is(err, context.Canceled) {
					t.Errorf("a call that was never begun: %v", err)
				}
				return g.Barrier(ctx) // so the group still works
			}
			return g.Barrier(ctx)
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		errs = collectivetest.Each(t, memtransport.New(2, nil), 2, func(ctx context.Context, g *collective.Group) error {
			if g.Rank() == 1 {
				<-time.After(5 * time.Second)
				return g.Barrier(ctx)
			}
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return g.Barrier(ctx)
		})
		var p *collective.PeerError
		if !errors.Is(errs[0], context.DeadlineExceeded) || !errors.As(errs[1], &p) || p.Rank != 0 {
			t.Errorf("got %v and %v", errs[0], errs[1])
		}
	})
}

// A rank that has left is no failure until it is waited for.
func TestPeerThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := collectivetest.Each(t, memtransport.New(2, nil), 2, func(ctx context.Context, g *collective.Group) error {
			if err := g.Barrier(ctx); err != nil {
				return err
			}
			if g.Rank() == 1 {
				return g.Close()
			}
			synctest.Wait()
			err := g.Barrier(ctx)
			var p *collective.PeerError
			if !errors.As(err, &p) || p.Rank != 1 || !errors.Is(err, collective.ErrPeerLeft) {
				t.Errorf("got %v", err)
			}
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
}

func TestGarbageIsThePeersFault(t *testing.T) {
	for name, spoil := range map[string]func(m *wire.Message){
		"notice": func(m *wire.Message) { m.Kind, m.Pieces = wire.Notice, [][]byte{[]byte("{")} },
		"length": func(m *wire.Message) { m.Pieces = [][]byte{{1, 2, 3}} },
	} {
		t.Run(name, func(t *testing.T) {
			hook := func(_ context.Context, from, _ int, m *wire.Message) bool {
				if from == 1 && m.Kind == wire.Data {
					spoil(m)
				}
				return true
			}
			synctest.Test(t, func(t *testing.T) { // the grace takes no time
				errs := collectivetest.Each(t, memtransport.New(2, hook), 2, func(ctx context.Context, g *collective.Group) error {
					return g.AllReduceSum(ctx, make([]float32, 2))
				})
				var p *collective.PeerError
				if !errors.As(errs[0], &p) || p.Rank != 1 {
					t.Errorf("got %v", errs[0])
				}
			})
		})
	}
}

// Groups leave no goroutines behind, however they end.
func TestNoGoroutineOutlivesItsGroup(t *testing.T) {
	for i := range 20 {
		net := memtransport.New(4, nil)
		collectivetest.Each(t, net, 4, func(ctx context.Context, g *collective.Group) error {
			if i%2 == 0 && g.Rank() == 3 {
				net.Kill(3)
			}
			return g.Barrier(ctx)
		}, func(c *collective.Config) { c.Grace = time.Millisecond })
	}
	checkNoGoroutines(t, "rejoin/collective.(*", "rejoin/collective/memtransport.(*")
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
