package optim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// checkpointRun is a run in the repository's testdata; the arguments are those
// that its README and *.yaml say.
type checkpointRun struct {
	dir           string
	schedule      string
	warmup, total int
	checkpoints   []int // by step
	params        []*Param
}

func checkpointRuns() []checkpointRun {
	mlp := func(hidden int) []*Param {
		return []*Param{
			testParam("backbone.0.weight", hidden, 64), testParam("backbone.0.bias", hidden),
			testParam("backbone.2.weight", 10, hidden), testParam("backbone.2.bias", 10),
		}
	}
	return []checkpointRun{
		{"regression-w2", "linear", 0, 6, []int{2, 4, 6}, []*Param{testParam("fc.weight", 1, 10), testParam("fc.bias", 1)}},
		{"digits-mlp-w2", "cosine", 3, 14, []int{4, 8, 12, 14}, mlp(32)},
		{"digits-epoch-w2", "constant_with_warmup", 4, 27, []int{9, 18, 27}, mlp(16)},
		{"digits-w1", "constant", 0, 16, []int{3, 6, 9, 12, 15, 16}, mlp(16)},
	}
}

// readObject reads what a torch.save file holds; it is valid for the test.
func readObject(t *testing.T, path ...string) *pyobj.Dict {
	t.Helper()
	f, err := torchfile.Open(filepath.Join(path...), torchfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	d, err := pyobj.AsDict(f.Object())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (r *checkpointRun) read(t *testing.T, step int, file string) *pyobj.Dict {
	t.Helper()
	return readObject(t, "../testdata", r.dir, fmt.Sprintf("checkpoint-%d", step), file)
}

// resume builds the optimizer and schedule of the run and loads a checkpoint.
// What the arguments say of the options is deliberately not the run's.
func (r *checkpointRun) resume(t *testing.T, step int) (*Adam, *Scheduler) {
	t.Helper()
	o := DefaultOptions()
	o.LR, o.WeightDecay, o.Beta1 = 0.125, 0.5, 0.5
	a, err := NewAdamW(DecayGroups(r.params, o))
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := NewSchedule(r.schedule, r.warmup, r.total, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewScheduler(a, schedule)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.LoadStateDict(r.read(t, step, "optimizer.pt")); err != nil {
		t.Fatal(err)
	}
	if err := s.LoadStateDict(r.read(t, step, "scheduler.pt")); err != nil {
		t.Fatal(err)
	}
	return a, s
}

// diff returns where two objects differ first, "" if nowhere: in type, in the
// order of keys, in a tensor's dtype, shape or bytes.
func diff(a, b any, path string) string {
	different := fmt.Sprintf("%s: %v (%s) and %v (%s)", path, a, pyobj.TypeName(a), b, pyobj.TypeName(b))
	if pyobj.TypeName(a) != pyobj.TypeName(b) {
		return different
	}
	switch a := a.(type) {
	case *pyobj.Dict:
		b := b.(*pyobj.Dict)
		if a.Len() != b.Len() {
			return different
		}
		for i, e := range a.Entries() {
			f := b.Entries()[i]
			if e.Key != f.Key {
				return fmt.Sprintf("%s: key %v and key %v", path, e.Key, f.Key)
			}
			if d := diff(e.Value, f.Value, fmt.Sprintf("%s[%v]", path, e.Key)); d != "" {
				return d
			}
		}
		return ""
	case *pyobj.List, *pyobj.Tuple:
		x, _ := pyobj.AsItems(a)
		y, _ := pyobj.AsItems(b)
		if len(x) != len(y) {
			return different
		}
		for i := range x {
			if d := diff(x[i], y[i], fmt.Sprintf("%s[%d]", path, i)); d != "" {
				return d
			}
		}
		return ""
	case *tensor.Tensor:
		b := b.(*tensor.Tensor)
		x, errA := a.Bytes()
		y, errB := b.Bytes()
		if err := errors.Join(errA, errB); err != nil {
			return fmt.Sprintf("%s: %v", path, err)
		}
		if a.String() != b.String() || !bytes.Equal(x, y) {
			return fmt.Sprintf("%s: %v and %v, or their elements", path, a, b)
		}
		return ""
	}
	if a != b {
		return different
	}
	return ""
}

// What is loaded from a checkpoint is written as it was, to the byte.
func TestCheckpointsReadBack(t *testing.T) {
	for _, run := range checkpointRuns() {
		for _, step := range run.checkpoints {
			a, s := run.resume(t, step)
			for file, state := range map[string]*pyobj.Dict{"optimizer.pt": a.StateDict(), "scheduler.pt": s.StateDict()} {
				if d := diff(run.read(t, step, file), state, file); d != "" {
					t.Errorf("%s/checkpoint-%d: %s", run.dir, step, d)
				}
				want, err := os.ReadFile(filepath.Join("../testdata", run.dir, fmt.Sprintf("checkpoint-%d", step), file))
				if err != nil {
					t.Fatal(err)
				}
				var got bytes.Buffer
				if err := torchfile.Write(&got, torchfile.ArchiveName(file), state); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got.Bytes(), want) {
					t.Errorf("%s/checkpoint-%d/%s: %d bytes written differ from the %d of the file", run.dir, step, file, got.Len(), len(want))
				}
			}
			if got := a.StepCount(run.params[0].Name); got != step {
				t.Errorf("%s/checkpoint-%d: step count is %d", run.dir, step, got)
			}
		}
	}
}

// From every checkpoint, the schedule arrives at the state and the options of
// every later one, learning rates in bits; only moments are the gradients' work.
func TestSchedulesReachLaterCheckpoints(t *testing.T) {
	for _, run := range checkpointRuns() {
		for i, from := range run.checkpoints {
			a, s := run.resume(t, from)
			for _, to := range run.checkpoints[i:] {
				for s.LastEpoch() < to {
					s.Step()
				}
				if d := diff(run.read(t, to, "scheduler.pt"), s.StateDict(), "scheduler"); d != "" {
					t.Errorf("%s: from %d to %d: %s", run.dir, from, to, d)
				}
				want, _ := run.read(t, to, "optimizer.pt").Get("param_groups")
				got, _ := a.StateDict().Get("param_groups")
				if d := diff(want, got, "param_groups"); d != "" {
					t.Errorf("%s: from %d to %d: %s", run.dir, from, to, d)
				}
			}
		}
	}
}

// A run from the Trainer's arguments writes the options that the Trainer wrote.
func TestFreshOptionsEqualTheTrainers(t *testing.T) {
	o := DefaultOptions()
	o.LR, o.WeightDecay, o.Implementation = 0.005, 0.05, Fused
	run := checkpointRuns()[1]
	a, err := NewAdamW(DecayGroups(run.params, o))
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := NewSchedule(run.schedule, run.warmup, run.total, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewScheduler(a, schedule)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		s.Step()
	}
	want, _ := run.read(t, 4, "optimizer.pt").Get("param_groups")
	got, _ := a.StateDict().Get("param_groups")
	if d := diff(want, got, "param_groups"); d != "" {
		t.Error(d)
	}
	if d := diff(run.read(t, 4, "scheduler.pt"), s.StateDict(), "scheduler"); d != "" {
		t.Error(d)
	}
}

func TestCheckpointOfAnotherModel(t *testing.T) {
	runs := checkpointRuns()
	a, _ := runs[0].resume(t, 2)
	err := a.LoadStateDict(runs[1].read(t, 4, "optimizer.pt"))
	if _, ok := errors.AsType[*LayoutError](err); !ok || !strings.Contains(err.Error(), "group 0 has 2 parameters in the file, 1 in the model") {
		t.Errorf("error is %v", err)
	}
}

// A scheduler's file is not an optimizer's, nor the other way.
func TestFilesExchanged(t *testing.T) {
	run := checkpointRuns()[0]
	a, s := run.resume(t, 2)
	for _, err := range []error{a.LoadStateDict(run.read(t, 2, "scheduler.pt")), s.LoadStateDict(run.read(t, 2, "optimizer.pt"))} {
		if _, ok := errors.AsType[*StateError](err); !ok || !strings.Contains(err.Error(), "state dict") {
			t.Errorf("error is %v", err)
		}
	}
}

func TestAMSGradFileReadsBack(t *testing.T) {
	d := readObject(t, "testdata", "adamw_amsgrad.pt")
	params := []*Param{testParam("0.weight", 7, 9), testParam("1.weight", 2, 7), testParam("0.bias", 7), testParam("1.bias", 2)}
	a, err := NewAdamW(DecayGroups(params, DefaultOptions()))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.LoadStateDict(d); err != nil {
		t.Fatal(err)
	}
	if o := a.Options(0); !o.AMSGrad || o.Implementation != SingleTensor || o.WeightDecay != 0.1 {
		t.Errorf("options are %+v", o)
	}
	if got := diff(d, a.StateDict(), ""); got != "" {
		t.Error(got)
	}
	setGrads(params, 1)
	a.Step()
}
