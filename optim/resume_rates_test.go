package optim

import (
	"math"
	"slices"
	"strings"
	"testing"

	"rejoin/pyobj"
)

// attach makes an optimizer of one group and the scheduler that make attaches.
func attach(t *testing.T, lr float64, make func(Rates) (*Scheduler, error)) (*Adam, *Scheduler) {
	t.Helper()
	a := smallAdam(t, lr)
	s, err := make(a)
	if err != nil {
		t.Fatal(err)
	}
	return a, s
}

// rates are those that each of n steps is made with.
func rates(a *Adam, s *Scheduler, n int) (used []float64) {
	for range n {
		used = append(used, a.LearningRate(0))
		a.Step()
		s.Step()
	}
	return used
}

// schedulersAtFive drop, or end their warm-up, at step 5.
func schedulersAtFive() map[string]func(Rates) (*Scheduler, error) {
	lambda := func(name string, warmup, total int, kwargs map[string]any) func(Rates) (*Scheduler, error) {
		return func(r Rates) (*Scheduler, error) {
			schedule, err := NewSchedule(name, warmup, total, kwargs)
			if err != nil {
				return nil, err
			}
			return NewScheduler(r, schedule)
		}
	}
	return map[string]func(Rates) (*Scheduler, error){
		"StepLR":               func(r Rates) (*Scheduler, error) { return NewStepLR(r, 5, 0.1) },
		"MultiStepLR":          func(r Rates) (*Scheduler, error) { return NewMultiStepLR(r, []int{5, 8}, 0.3) },
		"CosineAnnealingLR":    func(r Rates) (*Scheduler, error) { return NewCosineAnnealingLR(r, 5, 1e-5) },
		"linear":               lambda("linear", 5, 10, nil),
		"cosine":               lambda("cosine", 5, 10, nil),
		"cosine_with_restarts": lambda("cosine_with_restarts", 0, 10, map[string]any{"num_cycles": int64(2)}),
		"cosine_with_min_lr":   lambda("cosine_with_min_lr", 5, 10, map[string]any{"min_lr": 1e-4}),
		"polynomial":           lambda("polynomial", 5, 10, map[string]any{"power": 1.5}),
		"constant":             lambda("constant", 0, 10, nil),
		"constant_with_warmup": lambda("constant_with_warmup", 5, 10, nil),
		"inverse_sqrt":         lambda("inverse_sqrt", 5, 10, nil),
	}
}

// A learning rate must not come a step late after a resume, wherever it is cut:
// the rates of 12 steps are those of k steps, a resume and the rest, in bits,
// where the drop comes just when the run is cut, and where the schedule's last
// step, the 10th, was saved, too (D14, Lightning-AI/pytorch-lightning#1772).
func TestRatesAfterAResumeAreOnTime(t *testing.T) {
	for name, make := range schedulersAtFive() {
		a, s := attach(t, 0.01, make)
		want := rates(a, s, 12)
		if name != "constant" && want[4] == want[5] && want[5] == want[6] {
			t.Errorf("%s: nothing happens about step 5: %v", name, want)
		}
		for k := range 12 {
			a, s := attach(t, 0.01, make)
			got := rates(a, s, k)
			optimizer, scheduler := a.StateDict(), s.StateDict()
			b, r := attach(t, 0.01, make)
			if err := b.LoadStateDict(optimizer); err != nil {
				t.Fatal(err)
			}
			if err := r.LoadStateDict(scheduler); err != nil {
				t.Fatal(err)
			}
			got = append(got, rates(b, r, 12-k)...)
			if !slices.Equal(got, want) {
				t.Errorf("%s, cut after %d steps: rates are\n%v, want\n%v", name, k, got, want)
			}
		}
	}
}

// Seek finds the rates, and the state, of a run whose scheduler.pt is lost.
func TestSeekEqualsSteps(t *testing.T) {
	for name, make := range schedulersAtFive() {
		for k := range 12 {
			a, s := attach(t, 0.01, make)
			rates(a, s, k)
			b, r := attach(t, 0.01, make)
			r.Seek(k)
			if got := diff(s.StateDict(), r.StateDict(), name); got != "" {
				t.Errorf("after %d steps: %s", k, got)
			}
			if got, want := b.LearningRate(0), a.LearningRate(0); got != want {
				t.Errorf("%s after %d steps: rate %v, want %v", name, k, got, want)
			}
		}
	}
}

// So far that going through every step would take too long, it is the closed form.
func TestSeekFar(t *testing.T) {
	const far = 5 << 40
	for name, want := range map[string]float64{"StepLR": 0, "MultiStepLR": 0.01 * 0.09, "CosineAnnealingLR": 0.01} {
		a, s := attach(t, 0.01, schedulersAtFive()[name])
		s.Seek(far)
		if name == "CosineAnnealingLR" {
			s.Seek(10 * far) // a whole number of waves
		}
		if got := a.LearningRate(0); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: rate %v, want %v", name, got, want)
		}
		if s.LastEpoch() < far {
			t.Errorf("%s: it is at %d", name, s.LastEpoch())
		}
	}
}

// Rebase is for a run that goes on with the learning rate of its arguments.
func TestRebase(t *testing.T) {
	for name, make := range schedulersAtFive() {
		want, other := 0.0, 0.0
		for _, lr := range []float64{0.01, 0.5} {
			a, s := attach(t, lr, make)
			rates(a, s, 7)
			want, other = a.LearningRate(0), want
		}
		a, s := attach(t, 0.5, make)
		saved, savedRates := attach(t, 0.01, make)
		rates(saved, savedRates, 7)
		if err := a.LoadStateDict(saved.StateDict()); err != nil {
			t.Fatal(err)
		}
		if err := s.LoadStateDict(savedRates.StateDict()); err != nil {
			t.Fatal(err)
		}
		if a.LearningRate(0) != other {
			t.Errorf("%s: the saved rate is %v, want %v", name, a.LearningRate(0), other)
		}
		s.Rebase(0.5)
		if got := a.LearningRate(0); got != want || s.LastLR()[0] != want {
			t.Errorf("%s: rate is %v, want %v", name, got, want)
		}
		if base, _ := a.InitialLR(0); base != 0.5 || s.LastEpoch() != 7 {
			t.Errorf("%s: initial rate is %v at %d", name, base, s.LastEpoch())
		}
	}
}

func TestNewTorchSchedulersRefuse(t *testing.T) {
	a := smallAdam(t, 1)
	polynomial, err := NewSchedule("polynomial", 0, 9, map[string]any{"lr_end": 2.0})
	if err != nil {
		t.Fatal(err)
	}
	plateau := func(change func(*PlateauOptions)) error {
		o := DefaultPlateauOptions()
		change(&o)
		_, err := NewPlateau(a, o)
		return err
	}
	second := func(_ any, err error) error { return err }
	for want, err := range map[string]error{
		"step_size is 0":            second(NewStepLR(a, 0, 0.1)),
		"StepLR: gamma is -1":       second(NewStepLR(a, 1, -1)),
		"milestone -1 is negative":  second(NewMultiStepLR(a, []int{-1}, 0.1)),
		"MultiStepLR: gamma is NaN": second(NewMultiStepLR(a, []int{1}, math.NaN())),
		"T_max is 0":                second(NewCosineAnnealingLR(a, 0, 0)),
		"eta_min is -1":             second(NewCosineAnnealingLR(a, 1, -1)),
		"lr_end 2, must be below":   second(NewScheduler(a, polynomial)),
		`mode is "least"`:           plateau(func(o *PlateauOptions) { o.Mode = "least" }),
		`threshold_mode is ""`:      plateau(func(o *PlateauOptions) { o.ThresholdMode = "" }),
		"factor is 1":               plateau(func(o *PlateauOptions) { o.Factor = 1 }),
		"patience is -1":            plateau(func(o *PlateauOptions) { o.Patience = -1 }),
		"threshold is +Inf":         plateau(func(o *PlateauOptions) { o.Threshold = math.Inf(1) }),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
}

// A scheduler's file of one class is not another's.
func TestSchedulerStatesExchanged(t *testing.T) {
	step := func(r Rates) (*Scheduler, error) { return NewStepLR(r, 5, 0.1) }
	multi := func(r Rates) (*Scheduler, error) { return NewMultiStepLR(r, []int{5}, 0.1) }
	annealing := func(r Rates) (*Scheduler, error) { return NewCosineAnnealingLR(r, 5, 0) }
	_, s := attach(t, 1, step)
	_, m := attach(t, 1, multi)
	_, c := attach(t, 1, annealing)
	p, err := NewPlateau(smallAdam(t, 1), DefaultPlateauOptions())
	if err != nil {
		t.Fatal(err)
	}
	with := func(d *pyobj.Dict, key string, v any) *pyobj.Dict {
		d.Set(key, v)
		return d
	}
	counter := func(k, v any) *pyobj.Dict {
		d := &pyobj.Dict{Kind: pyobj.Counter}
		d.Set(k, v)
		return d
	}
	for _, tc := range []struct {
		to   anyScheduler
		d    *pyobj.Dict
		want string
	}{
		{s, m.StateDict(), `not a StepLR's state dict: key "step_size" is missing; it has "milestones"`},
		{m, s.StateDict(), `not a MultiStepLR's state dict: key "milestones" is missing`},
		{c, s.StateDict(), `not a CosineAnnealingLR's state dict: key "T_max" is missing`},
		{p, s.StateDict(), `not a ReduceLROnPlateau's state dict: key "factor" is missing`},
		{s, with(s.StateDict(), "step_size", int64(0)), "step_size: 0 is not a number of steps"},
		{s, with(s.StateDict(), "gamma", math.Inf(1)), "gamma: +Inf is not a finite number"},
		{m, with(m.StateDict(), "milestones", int64(5)), "milestones: expected a dict, found int"},
		{m, with(m.StateDict(), "milestones", counter("x", int64(1))), "milestones: expected an int, found str"},
		{m, with(m.StateDict(), "milestones", counter(int64(-4), int64(1))), "-4, 1 times, is not a milestone"},
		{c, with(c.StateDict(), "eta_min", -1.0), "eta_min is -1"},
		{p, with(p.StateDict(), "mode", "least"), "mode: found least, expected one of [min max]"},
		{p, with(p.StateDict(), "best", "x"), "best: expected a number, found str"},
		{p, with(p.StateDict(), "factor", 2.0), "factor is 2"},
	} {
		before := tc.to.StateDict()
		if err := tc.to.LoadStateDict(tc.d); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error is %v, want %q in it", err, tc.want)
		}
		if d := diff(before, tc.to.StateDict(), "state"); d != "" {
			t.Errorf("it changed: %s", d)
		}
	}
}
