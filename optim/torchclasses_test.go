package optim

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"rejoin/pyobj"
)

func newPlateau(t *testing.T, kwargs map[string]any) *Plateau {
	t.Helper()
	o, err := PlateauArguments(kwargs)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlateau(smallAdam(t, 1), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A state tells its class and the arguments that it was made with.
func TestDescribeScheduler(t *testing.T) {
	for _, tc := range []struct {
		class  string
		kwargs map[string]any
		want   string
	}{
		{StepLR, map[string]any{"step_size": 3.0}, "map[gamma:0.1 step_size:3]"},
		{MultiStepLR, map[string]any{"milestones": []any{int64(5), int64(2), int64(5)}, "gamma": int64(1)}, "map[gamma:1 milestones:[5 5 2]]"},
		{CosineAnnealingLR, map[string]any{"T_max": int64(4), "eta_min": nil}, "map[T_max:4 eta_min:0]"},
		{ReduceLROnPlateau, map[string]any{"mode": "max", "min_lr": []any{0.25}, "patience": int64(3)}, "map[cooldown:0 eps:1e-08 factor:0.1 min_lr:[0.25] mode:max patience:3 threshold:0.0001 threshold_mode:rel]"},
		{ReduceLROnPlateau, map[string]any{"min_lr": 0.5}, "map[cooldown:0 eps:1e-08 factor:0.1 min_lr:0.5 mode:min patience:10 threshold:0.0001 threshold_mode:rel]"},
	} {
		var state *pyobj.Dict
		if tc.class == ReduceLROnPlateau {
			state = newPlateau(t, tc.kwargs).StateDict()
		} else {
			attach, err := TorchSchedule(tc.class, tc.kwargs)
			if err != nil {
				t.Fatal(err)
			}
			s := attach(smallAdam(t, 1))
			if s.Class() != tc.class {
				t.Errorf("class is %s, want %s", s.Class(), tc.class)
			}
			state = s.StateDict()
		}
		got, err := DescribeScheduler(state)
		if err != nil || got.Class != tc.class || got.LastEpoch != 0 || fmt.Sprint(got.Arguments) != tc.want {
			t.Errorf("%s: described as %+v, %v, want %s", tc.class, got, err, tc.want)
		}
		again, err := SchedulerArguments(tc.class, tc.kwargs)
		if err != nil || fmt.Sprint(again) != tc.want {
			t.Errorf("%s: its arguments are %v, %v, want %s", tc.class, again, err, tc.want)
		}
	}
}

func TestDescribeOtherSchedulers(t *testing.T) {
	for _, tc := range []struct {
		d              *pyobj.Dict
		class, missing string
	}{
		{pyobj.NewDict("lr_lambdas", &pyobj.List{}, "last_epoch", int64(7)), LambdaLR, "[]"},
		{pyobj.NewDict("gamma", 0.9, "last_epoch", int64(7)), "", "[]"}, // ExponentialLR
		{pyobj.NewDict("T_0", int64(3), "T_i", int64(3), "eta_min", 0.0, "last_epoch", int64(7)), "", "[]"},
		{pyobj.NewDict("step_size", int64(3), "last_epoch", int64(7)), StepLR, "[gamma]"},
		{pyobj.NewDict("num_bad_epochs", int64(3), "mode", "min", "last_epoch", int64(7)), ReduceLROnPlateau, "[factor min_lrs patience cooldown eps threshold threshold_mode]"},
	} {
		got, err := DescribeScheduler(tc.d)
		if err != nil || got.Class != tc.class || fmt.Sprint(got.Missing) != tc.missing || got.LastEpoch != 7 || got.Arguments != nil {
			t.Errorf("%s is described as %+v, %v", keyList(tc.d), got, err)
		}
	}
	for _, d := range []*pyobj.Dict{pyobj.NewDict("gamma", 0.9), pyobj.NewDict("step_size", int64(0), "gamma", 0.1, "last_epoch", int64(1))} {
		if got, err := DescribeScheduler(d); err == nil {
			t.Errorf("%s is described as %+v", keyList(d), got)
		}
	}
}

// In torch 1.13 a ReduceLROnPlateau has no default_min_lr, and no _last_lr
// before a first step; what is written is today's.
func TestPlateauOfOlderTorch(t *testing.T) {
	state := func(minLRs ...any) *pyobj.Dict {
		return pyobj.NewDict(
			"factor", 0.5, "min_lrs", &pyobj.List{Items: minLRs}, "patience", int64(0), "verbose", false, "cooldown", int64(0), "cooldown_counter", int64(0),
			"mode", "min", "threshold", 1e-4, "threshold_mode", "rel", "best", math.Inf(1), "num_bad_epochs", int64(0), "mode_worse", math.Inf(1), "eps", 1e-8, "last_epoch", int64(0),
		)
	}
	p := newPlateau(t, map[string]any{"mode": "max", "factor": 0.9})
	if err := p.LoadStateDict(state(0.4)); err != nil {
		t.Fatal(err)
	}
	for _, metric := range []float64{2, 2, 2, 2} {
		p.Step(metric)
	}
	if got := p.LastLR()[0]; got != 0.4 {
		t.Errorf("rate is %v after three bad measurements, want min_lr, 0.4", got)
	}
	if v, _ := p.StateDict().Get("default_min_lr"); v != 0.4 {
		t.Errorf("default_min_lr is %v", v)
	}
	if err := p.LoadStateDict(state(0.4, 0.5)); err == nil || !strings.Contains(err.Error(), "it has 2 learning rates, the optimizer has 1 parameter groups") {
		t.Errorf("error is %v", err)
	}
	if o := readPlateau(&schedulerReader{dict: state(0.4, 0.5)}); len(o.MinLRs) != 2 {
		t.Errorf("min_lr is %v %v", o.MinLR, o.MinLRs)
	}
}

func TestTorchArgumentsRefused(t *testing.T) {
	for _, tc := range []struct {
		class  string
		kwargs map[string]any
		want   string
	}{
		{"CyclicLR", nil, `torch's scheduler class "CyclicLR" is not known here`},
		{StepLR, nil, "StepLR: argument step_size is missing"},
		{StepLR, map[string]any{"step_size": "x"}, "step_size: expected a number, found str"},
		{StepLR, map[string]any{"step_size": 2.0, "gamma": math.NaN()}, "gamma is NaN"},
		{MultiStepLR, map[string]any{}, "argument milestones is missing"},
		{MultiStepLR, map[string]any{"milestones": []any{-1.0}}, "milestones[0]: expected a whole number, 0 or more, found -1"},
		{CosineAnnealingLR, map[string]any{"T_max": 4.0, "last_epoch": -1.0}, "it does not take the arguments [last_epoch]"},
		{ReduceLROnPlateau, map[string]any{"mode": 1.0}, "mode: expected a word, found 1"},
		{ReduceLROnPlateau, map[string]any{"min_lr": []any{-1.0}}, "min_lr is [-1]"},
		{ReduceLROnPlateau, map[string]any{"patience": 0.5}, "patience: expected a whole number"},
	} {
		if _, err := SchedulerArguments(tc.class, tc.kwargs); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %v: error is %v, want %q in it", tc.class, tc.kwargs, err, tc.want)
		}
	}
	o, err := PlateauArguments(map[string]any{"min_lr": []any{0.1, 0.2}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewPlateau(smallAdam(t, 1), o); err == nil || !strings.Contains(err.Error(), "min_lr has 2 values, the optimizer has 1 parameter groups") {
		t.Errorf("error is %v", err)
	}
}
