package optim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"rejoin/pyobj"
)

func TestNewScheduleRefuses(t *testing.T) {
	for _, tc := range []struct {
		name          string
		warmup, total int
		kwargs        map[string]any
		want          string
	}{
		{"greedy", 0, 1, nil, `"greedy" is not known; known are [constant constant_with_warmup cosine cosine_with_min_lr cosine_with_restarts inverse_sqrt linear polynomial]`},
		{"polynomial", 4, 4, nil, "all of its 4 steps are warm-up"},
		{"polynomial", 0, 4, map[string]any{"power": -1.0}, "power is -1, expected 0 or more"},
		{"cosine_with_min_lr", 0, 4, nil, "it takes one of the arguments min_lr and min_lr_rate"},
		{"cosine_with_min_lr", 0, 4, map[string]any{"min_lr": 1e-4, "min_lr_rate": 0.1}, "it takes one of the arguments"},
		{"inverse_sqrt", 0, 4, map[string]any{"timescale": int64(0)}, "timescale is 0, expected a number above 0"},
		{"linear", -1, 1, nil, "-1 warm-up steps of 1"},
		{"linear", 0, -1, nil, "0 warm-up steps of -1"},
		{"linear", 0, 1, map[string]any{"num_cycles": 1.0}, "does not take the arguments [num_cycles]"},
		{"cosine", 0, 1, map[string]any{"num_cycles": "two"}, "num_cycles: expected a number, found str"},
		{"cosine", 0, 1, map[string]any{"num_cycles": 1e7}, "num_cycles is 1e+07"},
		{"cosine", 0, 1, map[string]any{"num_cycles": math.NaN()}, "num_cycles: NaN is not a finite number"},
		{"cosine", 0, 1, map[string]any{"power": 2.0, "num_cycles": int64(1)}, "does not take the arguments [power]"},
	} {
		_, err := NewSchedule(tc.name, tc.warmup, tc.total, tc.kwargs)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("NewSchedule(%q, %d, %d, %v): error is %v, want %q in it", tc.name, tc.warmup, tc.total, tc.kwargs, err, tc.want)
		}
	}
	if _, err := NewScheduler(smallAdam(t, 1), Schedule{}); err == nil {
		t.Error("NewScheduler takes a schedule that is none")
	}
}

// newLinear attaches a linear schedule of 2 warm-up steps and 12 in all.
func newLinear(t *testing.T, a *Adam) *Scheduler {
	t.Helper()
	schedule, err := NewSchedule("linear", 2, 12, nil)
	if err != nil {
		t.Fatal(err)
	}
	if schedule.Name() != "linear" {
		t.Errorf("the schedule is called %q", schedule.Name())
	}
	s, err := NewScheduler(a, schedule)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchedulerResumes(t *testing.T) {
	a := smallAdam(t, 0.002)
	s := newLinear(t, a)
	for range 5 {
		a.Step()
		s.Step()
	}
	optimizer, scheduler := a.StateDict(), s.StateDict()
	scheduler.Set("verbose", false) // as torch 1.13 wrote

	b := smallAdam(t, 123) // the argument is overridden by the files
	r := newLinear(t, b)
	if err := b.LoadStateDict(optimizer); err != nil {
		t.Fatal(err)
	}
	if err := r.LoadStateDict(scheduler); err != nil {
		t.Fatal(err)
	}
	if r.LastEpoch() != 5 || b.LearningRate(0) != a.LearningRate(0) {
		t.Errorf("resumed at %d with learning rate %v, want 5 with %v", r.LastEpoch(), b.LearningRate(0), a.LearningRate(0))
	}
	for range 9 {
		s.Step()
		r.Step()
		if got, want := b.LearningRate(0), a.LearningRate(0); got != want {
			t.Errorf("learning rate at step %d is %v, want %v", r.LastEpoch(), got, want)
		}
	}
	want := s.StateDict()
	got := r.StateDict()
	if v, ok := got.Get("verbose"); !ok || v != false {
		t.Error("an unknown key was not kept")
	}
	if last := got.Entries()[got.Len()-1].Key; last != "lr_lambdas" {
		t.Errorf("the last key is %v, want lr_lambdas", last)
	}
	for _, e := range want.Entries() {
		if v, _ := got.Get(e.Key); !reflect.DeepEqual(v, e.Value) {
			t.Errorf("%v is %v, want %v", e.Key, v, e.Value)
		}
	}
}

func TestSchedulerLoadRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(d *pyobj.Dict)
		want   string
	}{
		{"StepLR", func(d *pyobj.Dict) { *d = *pyobj.NewDict("step_size", int64(3), "gamma", 0.1) }, `key "lr_lambdas" is missing; it has "step_size", "gamma"`},
		{"callable", func(d *pyobj.Dict) {
			d.Set("lr_lambdas", &pyobj.List{Items: []any{pyobj.NewDict("alpha", 1.0)}})
		}, `lr_lambdas[0]: it holds the state of a callable of the training script's own ("alpha"), not of the schedule "linear"`},
		{"lambdas are text", func(d *pyobj.Dict) { d.Set("lr_lambdas", "x") }, "lr_lambdas: expected a list, found str"},
		{"lambda is text", func(d *pyobj.Dict) { d.Set("lr_lambdas", &pyobj.List{Items: []any{"x"}}) }, "lr_lambdas[0]: expected a dict, found str"},
		{"two rates", func(d *pyobj.Dict) { d.Set("base_lrs", floatList([]float64{1, 2})) }, "base_lrs: it has 2 learning rates, the optimizer has 1 parameter groups"},
		{"rate is text", func(d *pyobj.Dict) { d.Set("_last_lr", &pyobj.List{Items: []any{"x"}}) }, "_last_lr[0]: expected a number, found str"},
		{"rate is NaN", func(d *pyobj.Dict) { d.Set("base_lrs", floatList([]float64{math.NaN()})) }, "base_lrs[0]: NaN is not a learning rate"},
		{"rates are None", func(d *pyobj.Dict) { d.Set("base_lrs", nil) }, "base_lrs: expected a list, found None"},
		{"epoch is text", func(d *pyobj.Dict) { d.Set("last_epoch", "x") }, "last_epoch: expected an int, found str"},
		{"epoch is negative", func(d *pyobj.Dict) { d.Set("last_epoch", int64(-2)) }, "last_epoch: -2 is not a number of steps"},
		{"step count is huge", func(d *pyobj.Dict) { d.Set("_step_count", int64(math.MaxInt64)) }, "_step_count: 9223372036854775807 is not a number of steps"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newLinear(t, smallAdam(t, 1))
			before := s.StateDict()
			d := s.StateDict()
			tc.change(d)
			err := s.LoadStateDict(d)
			if _, ok := errors.AsType[*StateError](err); !ok || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v (%T), want %q in a *StateError", err, err, tc.want)
			}
			if !reflect.DeepEqual(s.StateDict(), before) {
				t.Error("the scheduler changed")
			}
		})
	}
}

// trainerRuns are the runs in the repository's testdata, with the arguments
// that its README and *.yaml say.
var trainerRuns = []struct {
	dir           string
	schedule      string
	warmup, total int
	lr            float64
	groups        int
}{
	{"regression-w2", "linear", 0, 6, 0.01, 2},
	{"digits-mlp-w2", "cosine", 3, 14, 0.005, 2},
	{"digits-epoch-w2", "constant_with_warmup", 4, 27, 0.004, 2},
	{"digits-w1", "constant", 0, 16, 0.004, 2},
}

// The learning rates of every step equal those that the Trainer logged, in bits.
func TestSchedulesEqualTheTrainersLog(t *testing.T) {
	for _, run := range trainerRuns {
		t.Run(run.dir, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join("../testdata", run.dir, "checkpoint-*", "trainer_state.json"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no trainer_state.json: %v", err)
			}
			schedule, err := NewSchedule(run.schedule, run.warmup, run.total, nil)
			if err != nil {
				t.Fatal(err)
			}
			compared := 0
			for _, file := range files {
				raw, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				var state struct {
					LogHistory []struct {
						LearningRate *float64 `json:"learning_rate"`
						Step         int
					} `json:"log_history"`
				}
				if err := json.Unmarshal(raw, &state); err != nil {
					t.Fatal(err)
				}
				for _, entry := range state.LogHistory {
					if entry.LearningRate == nil {
						continue
					}
					compared++
					// Entry N is the rate that update N was made with.
					if got := run.lr * schedule.Factor(entry.Step-1, run.lr); got != *entry.LearningRate {
						t.Errorf("step %d: %v, want %v", entry.Step, got, *entry.LearningRate)
					}
				}
			}
			if compared == 0 {
				t.Error("nothing was compared")
			}
		})
	}
}

// The empty dict of a partial and the None of a function, as torch saves them.
func TestLambdasOfStateDict(t *testing.T) {
	for _, name := range []string{"constant", "constant_with_warmup", "linear", "cosine"} {
		schedule, err := NewSchedule(name, 1, 5, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewScheduler(smallAdam(t, 1), schedule)
		if err != nil {
			t.Fatal(err)
		}
		d := s.StateDict()
		keys := make([]string, 0, d.Len())
		for _, e := range d.Entries() {
			keys = append(keys, fmt.Sprint(e.Key))
		}
		want := []string{"base_lrs", "last_epoch", "_step_count", "_is_initial", "_get_lr_called_within_step", "_last_lr", "lr_lambdas"}
		if !slices.Equal(keys, want) {
			t.Errorf("%s: keys are %v, want %v", name, keys, want)
		}
		if got := at(t, d, "lr_lambdas", 0); (got == nil) != (name == "constant") {
			t.Errorf("%s: lambda is saved as %v", name, got)
		}
	}
}
