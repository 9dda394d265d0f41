package trainer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"rejoin/ckpt/hf"
	"rejoin/collective"
	"rejoin/collective/collectivetest"
	"rejoin/collective/memtransport"
	"rejoin/trainer"
)

// regressionRun trains the regression model from scratch into out.
func regressionRun(out string, size int, set ...string) *trainer.Request {
	return &trainer.Request{
		Config: testdata("regression-train.yaml"), Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"),
		OutputDir: out, WorldSize: size, Set: set,
	}
}

// asked are ranks under requests.
type asked struct {
	said
	requests []trainer.Requests // by rank
	group    func(g trainer.Group) trainer.Group
	onLine   func(a *asked, line string) // of rank 0
}

func (a *asked) Write(p []byte) (int, error) {
	a.mu.Lock()
	a.lines.Write(p)
	a.mu.Unlock()
	if a.onLine != nil {
		a.onLine(a, string(p))
	}
	return len(p), nil
}

func (a *asked) run(t *testing.T, r *trainer.Request, beforeRun func()) []error {
	t.Helper()
	job, notices, err := trainer.Resolve(r)
	for _, n := range notices {
		a.warns.WriteString(n.Text + "\n")
	}
	if err != nil {
		t.Fatal(err)
	}
	if beforeRun != nil {
		beforeRun()
	}
	a.requests = make([]trainer.Requests, r.WorldSize)
	return collectivetest.Each(t, memtransport.New(r.WorldSize, nil), r.WorldSize, func(ctx context.Context, g *collective.Group) error {
		var group trainer.Group = g
		if a.group != nil {
			group = a.group(g)
		}
		out := trainer.Output{Lines: a, Warnings: lockedWriter{&a.mu, &a.warns}}
		err := trainer.RunWithRequests(ctx, group, job, out, &a.requests[g.Rank()])
		var agreed *trainer.RankError
		var stopped *trainer.StoppedError
		if err != nil && !errors.As(err, &agreed) && !errors.As(err, &stopped) {
			g.Abort(err)
		}
		return err
	})
}

// Asked to stop after any step, all ranks save that step and leave, and what
// they saved resumes to the same bytes as a run that was left alone.
func TestStopAfterAnyStepResumesToTheSameBytes(t *testing.T) {
	for _, size := range []int{1, 2, 3} {
		straight := t.TempDir()
		trainRanks(t, regressionRun(straight, size))
		for step := 1; step < 6; step++ {
			t.Run(fmt.Sprintf("%d ranks, asked after step %d", size, step), func(t *testing.T) {
				t.Parallel()
				out := filepath.Join(t.TempDir(), "a run's")
				a := &asked{onLine: func(a *asked, line string) {
					if strings.HasPrefix(line, fmt.Sprintf("step %d/6", step)) {
						a.requests[(step+1)%size].Stop("a test")
					}
				}}
				errs := a.run(t, regressionRun(out, size, "logging_steps=1"), nil)
				if step >= 4 && errs[0] == nil { // nothing was left to stop
					return
				}
				at := stoppedAt(t, errs, size, step)
				again := t.TempDir()
				trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(out, checkpointDir(at)), OutputDir: again, WorldSize: size})
				sameFiles(t, filepath.Join(again, "checkpoint-6"), filepath.Join(straight, "checkpoint-6"))
			})
		}
	}
}

// stoppedAt is the step at which all ranks stopped: the next one, or the one
// after it, since a rank asks while others may be in the next step already.
func stoppedAt(t *testing.T, errs []error, size, asked int) int {
	t.Helper()
	at := 0
	for rank, err := range errs {
		var stopped *trainer.StoppedError
		if !errors.As(err, &stopped) {
			t.Fatalf("rank %d: %v", rank, err)
		}
		if rank > 0 && stopped.Step != at {
			t.Errorf("rank %d stopped at step %d, rank 0 at %d", rank, stopped.Step, at)
		}
		at = stopped.Step
	}
	if at != asked+1 && at != asked+2 {
		t.Errorf("stopped at step %d, asked after %d", at, asked)
	}
	if text := errs[0].Error(); !strings.Contains(text, fmt.Sprintf("launch --nproc %d resume '", size)) || !strings.Contains(text, fmt.Sprintf(`a run'\''s/checkpoint-%d'`, at)) {
		t.Errorf("it says %q", text)
	}
	return at
}

// A request to save makes one checkpoint, at the next step, and changes nothing after it.
func TestSaveOnRequest(t *testing.T) {
	straight, out := t.TempDir(), t.TempDir()
	trainRanks(t, regressionRun(straight, 2, "save_steps=6", "logging_steps=1"))
	a := &asked{onLine: func(a *asked, line string) {
		if strings.HasPrefix(line, "step 2/6") {
			for rank := range a.requests {
				a.requests[rank].Save()
			}
		}
	}}
	for rank, err := range a.run(t, regressionRun(out, 2, "save_steps=6", "logging_steps=1"), nil) {
		if err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
	}
	if got := dirNames(t, out); !slices.Equal(got, []string{"checkpoint-3", "checkpoint-6"}) {
		t.Errorf("the run left %v", got)
	}
	sameFiles(t, filepath.Join(out, "checkpoint-6"), filepath.Join(straight, "checkpoint-6"))
}

func dirNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, e := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
		names = append(names, e.Name())
	}
	return names
}

func TestSaveModesWriteTheSameBytes(t *testing.T) {
	dirs := map[string]string{}
	for _, mode := range []string{trainer.SaveAsync, trainer.SaveSync} {
		r := regressionRun(t.TempDir(), 2, "save_steps=1")
		r.SaveMode, dirs[mode] = mode, r.OutputDir
		s := trainRanks(t, r)
		for step := range 6 {
			if want := checkpointDir(step+1) + ": saved\n"; strings.Count(s.lines.String(), want) != 1 {
				t.Errorf("%s: %q was not said once:\n%s", mode, want, s.lines.String())
			}
		}
		if mode == trainer.SaveSync && !strings.Contains(s.lines.String(), "checkpoint-3: saved\nstep 4/6") {
			t.Errorf("training did not wait:\n%s", s.lines.String())
		}
	}
	for step := range 6 {
		sameFiles(t, filepath.Join(dirs["async"], checkpointDir(step+1)), filepath.Join(dirs["sync"], checkpointDir(step+1)))
	}
	r := regressionRun(t.TempDir(), 1)
	r.SaveMode = "later"
	if _, errs := tryRanks(t, r); errs[0] == nil || !strings.Contains(errs[0].Error(), `--save-mode: found "later", expected async`) {
		t.Errorf("err = %v", errs[0])
	}
}

// A save that fails in the background stops every rank, with one message, by
// the next save at the latest; what was there stays.
func TestFailedBackgroundSaveStopsAllRanks(t *testing.T) {
	for _, mode := range []string{trainer.SaveAsync, trainer.SaveSync} {
		t.Run(mode, func(t *testing.T) {
			out := t.TempDir()
			r := regressionRun(out, 2)
			r.SaveMode = mode
			errs := (&asked{}).run(t, r, func() {
				if err := os.WriteFile(filepath.Join(out, "checkpoint-4"), []byte("mine"), 0o666); err != nil {
					t.Fatal(err)
				}
			})
			printed := 0
			for rank, err := range errs {
				var agreed *trainer.RankError
				if !errors.As(err, &agreed) || !strings.Contains(err.Error(), "checkpoint-4 exists and is not a directory") {
					t.Fatalf("rank %d: %v", rank, err)
				}
				if agreed.Report(rank) != "" {
					printed++
				}
			}
			var exists *hf.ExistsError
			if printed != 1 || !errors.As(errs[0], &exists) {
				t.Errorf("%d ranks print %v", printed, errs[0])
			}
			if got := dirNames(t, out); !slices.Equal(got, []string{"checkpoint-2", "checkpoint-4"}) {
				t.Errorf("the run left %v", got)
			}
		})
	}
}

// countedGroup calls then instead of some reduction and all later ones.
type countedGroup struct {
	trainer.Group
	left atomic.Int32
	then func(ctx context.Context, buf []float32) error
}

var errBroken = errors.New("a broken wire")

func (g *countedGroup) AllReduceMean(ctx context.Context, buf []float32) error {
	if g.left.Add(-1) < 0 {
		return g.then(ctx, buf)
	}
	return g.Group.AllReduceMean(ctx, buf)
}

// When the run fails while a save is under way, the save still ends whole: rank 1
// fails in step 5, when rank 0 is there, too, and so has begun to save step 4.
func TestSaveUnderWayOutlivesAFailure(t *testing.T) {
	out := t.TempDir()
	begun := make(chan struct{})
	a := &asked{group: func(g trainer.Group) trainer.Group {
		c := &countedGroup{Group: g}
		c.left.Store(4)
		c.then = func(ctx context.Context, buf []float32) error {
			if g.Rank() == 0 {
				close(begun)
				return g.AllReduceMean(ctx, buf)
			}
			select {
			case <-begun:
				return errBroken
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return c
	}}
	errs := a.run(t, regressionRun(out, 2), nil)
	if !errors.Is(errs[1], errBroken) || errs[0] == nil {
		t.Fatalf("errors: %v", errs)
	}
	if err := hf.Complete(filepath.Join(out, "checkpoint-4")); err != nil || !strings.Contains(a.lines.String(), "checkpoint-4: saved") {
		t.Errorf("checkpoint-4: %v\n%s", err, a.lines.String())
	}
}

// A run keeps as many checkpoints as it is told to, the newest by step, and leaves what
// is not its own (D21, huggingface/transformers#26961).
func TestRunKeepsItsLimit(t *testing.T) {
	out := filepath.Join(t.TempDir(), "ein Lauf é")
	if err := os.MkdirAll(filepath.Join(out, "checkpoint-0", "notes"), 0o777); err != nil {
		t.Fatal(err)
	}
	s := trainRanks(t, regressionRun(out, 2, "save_steps=1", "save_total_limit=2"))
	if got := dirNames(t, out); !slices.Equal(got, []string{"checkpoint-0", "checkpoint-5", "checkpoint-6"}) {
		t.Errorf("the run left %v", got)
	}
	if !strings.Contains(s.lines.String(), "checkpoint-4: removed, as save_total_limit is 2") {
		t.Errorf("said\n%s", s.lines.String())
	}
	if n := strings.Count(s.warns.String(), "checkpoint-0 is left: "); n != 1 {
		t.Errorf("the foreign directory was told of %d times:\n%s", n, s.warns.String())
	}
}

// A run whose folder was moved: its state names the best checkpoint by a path that is
// gone (D22, huggingface/transformers#48315).
func TestBestCheckpointOfAMovedRun(t *testing.T) {
	for _, tc := range []struct{ name, stored, want, warns string }{
		{"beside it", "/gone/mein Lauf é/checkpoint-2", "checkpoint-2", ""},
		{"not there any more", "/gone/run/checkpoint-3", "", "the best checkpoint, /gone/run/checkpoint-3, is not there any more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "ein anderer Ort é")
			for _, step := range []int{2, 4} {
				to := filepath.Join(out, checkpointDir(step))
				copyTree(t, testdata("regression-w2", checkpointDir(step)), to)
				path := filepath.Join(to, hf.StateFile)
				state := must[[]byte](t)(os.ReadFile(path))
				state = bytes.Replace(state, []byte(`"best_model_checkpoint": null`), []byte(`"best_model_checkpoint": "`+tc.stored+`"`), 1)
				if err := os.WriteFile(path, state, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			s := trainRanks(t, &trainer.Request{
				Checkpoint: out, Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"),
				OutputDir: out, WorldSize: 2, Set: []string{"save_total_limit=1"},
			})
			want, keeps := any(nil), []string{"checkpoint-6"}
			if tc.want != "" {
				want, keeps = filepath.Join(out, tc.want), []string{tc.want, "checkpoint-6"}
			}
			state := must[*hf.TrainerState](t)(openCheckpoint(t, filepath.Join(out, "checkpoint-6")).State())
			if got := state.Get("best_model_checkpoint"); got != want {
				t.Errorf("the state names %v, want %v", got, want)
			}
			if got := dirNames(t, out); !slices.Equal(got, keeps) {
				t.Errorf("the run left %v, want %v", got, keeps)
			}
			if n := strings.Count(s.warns.String(), "the best checkpoint"); n != strings.Count(tc.warns, "the best") || !strings.Contains(s.warns.String(), tc.warns) {
				t.Errorf("warned:\n%s", s.warns.String())
			}
		})
	}
}

// What interrupted saves left is cleared away before a checkpoint is chosen
// (D19, Lightning-AI/pytorch-lightning#688).
func TestLeftoversAreClearedBeforeChoosing(t *testing.T) {
	out := t.TempDir()
	trainRanks(t, regressionRun(out, 2))
	for _, err := range []error{
		os.Rename(filepath.Join(out, "checkpoint-4"), filepath.Join(out, ".displaced-checkpoint-4-0123abcd")),
		os.Rename(filepath.Join(out, "checkpoint-6"), filepath.Join(out, ".removed-checkpoint-6-0123abcd")),
		os.Mkdir(filepath.Join(out, ".tmp-checkpoint-8-0123abcd"), 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, checkpoint := range []string{out, filepath.Join(out, "checkpoint-4")} {
		job, notices, err := trainer.Resolve(&trainer.Request{Checkpoint: checkpoint, WorldSize: 2})
		if err != nil || job.Checkpoint != filepath.Join(out, "checkpoint-4") {
			t.Fatalf("%s: %+v, %v", checkpoint, job, err)
		}
		if checkpoint != out {
			continue
		}
		var text strings.Builder
		for _, n := range notices {
			fmt.Fprintln(&text, n.Text)
		}
		for _, want := range []string{"checkpoint-4: put back", ".removed-checkpoint-6-0123abcd: removed", ".tmp-checkpoint-8-0123abcd: removed"} {
			if strings.Count(text.String(), want) != 1 {
				t.Errorf("%q was not said once:\n%s", want, text.String())
			}
		}
	}
}
