// Package collectivetest runs the ranks of a group in one process, for tests of
// whatever is built on package collective.
package collectivetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"rejoin/collective"
	"rejoin/collective/memtransport"
)

// Func is what one rank does.
type Func func(ctx context.Context, g *collective.Group) error

// Option changes a rank's configuration before its group is made.
type Option func(*collective.Config)

// Run runs f on every rank of an in-memory group and fails the test with the
// first error; the other ranks are aborted by it, and their errors, which it
// caused, are not shown. It returns when all ranks have.
func Run(t testing.TB, size int, f Func, options ...Option) {
	t.Helper()
	var first error
	var once sync.Once
	Each(t, memtransport.New(size, nil), size, func(ctx context.Context, g *collective.Group) error {
		err := f(ctx, g)
		if err != nil {
			once.Do(func() { first = fmt.Errorf("rank %d: %w", g.Rank(), err) })
			g.Abort(err)
		}
		return err
	}, options...)
	if first != nil {
		t.Fatal(first)
	}
}

// Each runs f on every rank over net and returns what each returned. It closes
// the groups when all ranks have returned.
func Each(t testing.TB, net *memtransport.Network, size int, f Func, options ...Option) []error {
	t.Helper()
	groups := make([]*collective.Group, size)
	for rank := range groups {
		cfg := collective.Config{Rank: rank, Size: size, Transport: net.Endpoint(rank)}
		for _, o := range options {
			o(&cfg)
		}
		g, err := collective.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		groups[rank] = g
	}
	errs := make([]error, size)
	var ranks sync.WaitGroup
	for rank, g := range groups {
		ranks.Go(func() { errs[rank] = f(t.Context(), g) })
	}
	ranks.Wait()
	for _, g := range groups {
		ranks.Go(func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	ranks.Wait()
	return errs
}
