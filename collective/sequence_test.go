package collective_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rejoin/collective"
	"rejoin/collective/collectivetest"
	"rejoin/collective/memtransport"
	"rejoin/collective/wire"
)

// jitter holds every message up to 10 ms, each link by its own random series.
func jitter(seed uint64) memtransport.Hook {
	var mu sync.Mutex
	links := map[[2]int]*rand.Rand{}
	return func(ctx context.Context, from, to int, _ *wire.Message) bool {
		mu.Lock()
		rng := links[[2]int{from, to}]
		if rng == nil {
			rng = rand.New(rand.NewPCG(seed, uint64(from*100+to)))
			links[[2]int{from, to}] = rng
		}
		d := time.Duration(rng.Int64N(int64(10 * time.Millisecond)))
		mu.Unlock()
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return true
	}
}

// sequence runs a random program of operations, the same on every rank, checks
// what it can and returns a digest of all results.
func sequence(ctx context.Context, g *collective.Group, seed uint64) (string, error) {
	program := rand.New(rand.NewPCG(seed, 1))
	digest := fnv.New64a()
	for i := range 30 {
		n, root := program.IntN(400), program.IntN(g.Size())
		switch program.IntN(5) {
		case 0, 1:
			buf := values(g.Rank()+100*i, n)
			op := g.AllReduceSum
			if n%2 == 0 {
				op = g.AllReduceMean
			}
			if err := op(ctx, buf); err != nil {
				return "", err
			}
			for _, v := range buf {
				fmt.Fprintf(digest, "%x ", math.Float32bits(v))
			}
		case 2:
			buf := bytes.Repeat([]byte{byte(g.Rank())}, n)
			if err := g.Broadcast(ctx, buf, root); err != nil {
				return "", err
			}
			if !bytes.Equal(buf, bytes.Repeat([]byte{byte(root)}, n)) {
				return "", fmt.Errorf("operation %d: a wrong broadcast", i)
			}
		case 3:
			parts, err := g.AllGather(ctx, bytes.Repeat([]byte{byte(g.Rank())}, n*g.Rank()))
			if err != nil {
				return "", err
			}
			for r, p := range parts {
				if !bytes.Equal(p, bytes.Repeat([]byte{byte(r)}, n*r)) {
					return "", fmt.Errorf("operation %d: a wrong part %d", i, r)
				}
			}
		case 4:
			if err := g.Barrier(ctx); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("%x", digest.Sum64()), nil
}

// Whatever the timing, every run gives the same bits on every rank.
func TestRandomSequencesGiveTheSameBits(t *testing.T) {
	for size := 2; size <= 6; size++ {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("P=%d/seed=%d", size, seed), func(t *testing.T) {
				var first string
				for timing := range uint64(3) {
					synctest.Test(t, func(t *testing.T) {
						digests := make([]string, size)
						errs := collectivetest.Each(t, memtransport.New(size, jitter(timing)), size, func(ctx context.Context, g *collective.Group) error {
							var err error
							digests[g.Rank()], err = sequence(ctx, g, seed)
							return err
						}, small)
						for r, d := range digests {
							if errs[r] != nil {
								t.Fatalf("rank %d: %v", r, errs[r])
							}
							if first == "" {
								first = d
							}
							if d != first {
								t.Errorf("timing %d: rank %d has %s, want %s", timing, r, d, first)
							}
						}
					})
				}
			})
		}
	}
}

// A rank may die at any message of such a program: the others always end, in
// bounded time, and name it.
func TestDeathAtAnyMessage(t *testing.T) {
	const size, victim = 4, 2
	for at := 1; at < 120; at += 7 {
		t.Run(fmt.Sprintf("message=%d", at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var net *memtransport.Network
				var mu sync.Mutex
				count := 0
				net = memtransport.New(size, func(_ context.Context, from, _ int, _ *wire.Message) bool {
					mu.Lock()
					defer mu.Unlock()
					if from == victim {
						if count++; count == at {
							net.Kill(victim)
						}
					}
					return true
				})
				start := time.Now()
				errs := collectivetest.Each(t, net, size, func(ctx context.Context, g *collective.Group) error {
					for {
						if _, err := sequence(ctx, g, 5); err != nil {
							return err
						}
					}
				}, small)
				for r, err := range errs {
					var named interface{ FailedRank() int }
					if r != victim && (!errors.As(err, &named) || named.FailedRank() != victim) {
						t.Errorf("rank %d: %v", r, err)
					}
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}
