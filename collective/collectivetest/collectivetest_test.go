package collectivetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"rejoin/collective"
	"rejoin/collective/collectivetest"
)

// recorder is a testing.TB that notes a fatal error instead of failing.
type recorder struct {
	testing.TB
	fatal []any
}

func (r *recorder) Fatal(args ...any) { r.fatal = args }
func (r *recorder) Helper()           {}

// The rank that failed first is shown, not the others that it took with it.
func TestRunShowsTheFirstFailure(t *testing.T) {
	r := &recorder{TB: t}
	boom := errors.New("boom")
	collectivetest.Run(r, 3, func(ctx context.Context, g *collective.Group) error {
		if g.Rank() == 1 {
			return boom
		}
		return g.Barrier(ctx)
	})
	if len(r.fatal) != 1 {
		t.Fatalf("reported %v", r.fatal)
	}
	err, ok := r.fatal[0].(error)
	if !ok || !errors.Is(err, boom) || !strings.HasPrefix(err.Error(), "rank 1: ") {
		t.Errorf("reported %v", r.fatal)
	}
}

func TestRunPassesWhatWorks(t *testing.T) {
	collectivetest.Run(t, 4, func(ctx context.Context, g *collective.Group) error { return g.Barrier(ctx) },
		func(c *collective.Config) { c.SegmentBytes = 8 })
}
