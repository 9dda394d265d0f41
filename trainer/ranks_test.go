package trainer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"rejoin/collective"
	"rejoin/collective/collectivetest"
	"rejoin/collective/memtransport"
	"rejoin/trainer"
)

// said collects what the ranks of a run print.
type said struct {
	mu    sync.Mutex
	lines bytes.Buffer
	warns bytes.Buffer
}

type lockedWriter struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

func (s *said) output() trainer.Output {
	return trainer.Output{Lines: lockedWriter{&s.mu, &s.lines}, Warnings: lockedWriter{&s.mu, &s.warns}}
}

// trainRanks resolves the request, runs its ranks in one process and returns
// what they printed; any failure fails the test.
func trainRanks(t *testing.T, r *trainer.Request) *said {
	t.Helper()
	s, errs := tryRanks(t, r)
	for rank, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
	}
	return s
}

// tryRanks is trainRanks for runs that may fail; a request that cannot be
// resolved gives its error as rank 0's.
func tryRanks(t *testing.T, r *trainer.Request) (*said, []error) {
	t.Helper()
	s := &said{}
	job, notices, err := trainer.Resolve(r)
	for _, n := range notices {
		s.warns.WriteString(n.Text + "\n")
	}
	if err != nil {
		return s, []error{err}
	}
	raw := must[[]byte](t)(job.Encode())
	errs := collectivetest.Each(t, memtransport.New(r.WorldSize, nil), r.WorldSize, func(ctx context.Context, g *collective.Group) error {
		mine, err := trainer.DecodeJob(raw)
		if err == nil {
			err = trainer.Run(ctx, g, mine, s.output())
		}
		if agreed := (*trainer.RankError)(nil); err != nil && !errors.As(err, &agreed) {
			g.Abort(err)
		}
		return err
	})
	return s, errs
}

// copyDir copies a flat directory into a new temporary one of the same name.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(from))
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// files reads a flat directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, e := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
		out[e.Name()] = string(must[[]byte](t)(os.ReadFile(filepath.Join(dir, e.Name()))))
	}
	return out
}

// disagree runs size ranks on the same job, where one rank finds another
// checkpoint under the path.
func disagree(t *testing.T, size, odd int) []error {
	t.Helper()
	mine, other := copyDir(t, testdata("digits-epoch-w2", "checkpoint-9")), copyDir(t, testdata("digits-epoch-w2", "checkpoint-18"))
	job, _, err := trainer.Resolve(&trainer.Request{
		Checkpoint: mine, Data: testdata("digits.jsonl"), Model: testdata("digits-small.yaml"), Set: []string{"gradient_accumulation_steps=1"},
		OutputDir: filepath.Join(t.TempDir(), "never"), WorldSize: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	job.WorldSize = size
	return collectivetest.Each(t, memtransport.New(size, nil), size, func(ctx context.Context, g *collective.Group) error {
		j := *job
		if g.Rank() == odd {
			j.Checkpoint = other
		}
		return trainer.Run(ctx, g, &j, (&said{}).output())
	})
}
