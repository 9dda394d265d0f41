package optim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"rejoin/pyobj"
)

// Schedule is a learning rate schedule by Hugging Face's name: the factor by
// which the initial learning rate is multiplied at each step. The zero value
// is not a schedule; [NewSchedule] makes one.
type Schedule struct {
	name   string
	factor lambda
	// function tells torch's two ways of saving a lambda: a plain function as
	// None, a functools.partial as its empty __dict__.
	function bool
	// checkLR refuses learning rates that the schedule cannot start from; nil
	// takes all.
	checkLR func(lr float64) error
}

// lambda is the factor at a step of a run whose optimizer was made with lr.
type lambda func(step int, lr float64) float64

// Name is the schedule's name.
func (s Schedule) Name() string { return s.name }

// Factor is the multiplier at step, counted from 0, for an optimizer that was
// made with the learning rate lr, on which only "polynomial" and
// "cosine_with_min_lr" depend.
func (s Schedule) Factor(step int, lr float64) float64 { return s.factor(step, lr) }

// scheduleArgs are the numbers of optimizer steps of the warm-up and of all,
// and the schedule's own arguments.
type scheduleArgs struct {
	warmup, total int
	kwargs        map[string]any
}

var schedules = map[string]func(scheduleArgs) (Schedule, error){
	"constant": func(scheduleArgs) (Schedule, error) {
		return Schedule{factor: func(int, float64) float64 { return 1 }, function: true}, nil
	},
	"constant_with_warmup": func(a scheduleArgs) (Schedule, error) {
		return Schedule{factor: a.afterWarmup(func(int, float64) float64 { return 1 })}, nil
	},
	"linear": func(a scheduleArgs) (Schedule, error) {
		return Schedule{factor: a.afterWarmup(func(step int, _ float64) float64 {
			return max(0, float64(a.total-step)/float64(max(1, a.total-a.warmup)))
		})}, nil
	},
	"cosine":               newCosine,
	"cosine_with_restarts": newCosineWithRestarts,
	"cosine_with_min_lr":   newCosineWithMinLR,
	"polynomial":           newPolynomial,
	"inverse_sqrt":         newInverseSqrt,
}

// ScheduleNames are the schedules that [NewSchedule] makes, sorted.
func ScheduleNames() []string { return slices.Sorted(maps.Keys(schedules)) }

// NewSchedule makes the schedule that Hugging Face's lr_scheduler_type names,
// one of [ScheduleNames]. warmup and total are numbers of optimizer steps;
// kwargs are lr_scheduler_kwargs.
//
//	warm-up               step / max(1, warmup)                  while step < warmup
//	linear                max(0, (total-step) / max(1, total-warmup))
//	cosine                max(0, (1 + cos(π·num_cycles·2·progress)) / 2)   num_cycles 0.5
//	cosine_with_restarts  max(0, (1 + cos(π·(num_cycles·progress mod 1))) / 2), 0 from total on   num_cycles 1
//	cosine_with_min_lr    cosine·(1-min_lr_rate) + min_lr_rate   or min_lr = min_lr_rate·lr
//	polynomial            ((lr-lr_end)·(1-progress)^power + lr_end) / lr   lr_end 1e-7, power 1
//	inverse_sqrt          1 / √((step + timescale - warmup) / timescale)   timescale warmup, or 10000
//	                      progress = (step-warmup) / max(1, total-warmup)
//
// The formulas and their order of operations are those of transformers 5.12,
// optimization.py. The cosine is correctly rounded; glibc's differs from that
// in the last place for about one argument in a thousand. So are powers.
func NewSchedule(name string, warmup, total int, kwargs map[string]any) (Schedule, error) {
	build, ok := schedules[name]
	if !ok {
		return Schedule{}, fmt.Errorf("learning rate schedule %q is not known; known are %v", name, ScheduleNames())
	}
	if warmup < 0 || total < 0 {
		return Schedule{}, fmt.Errorf("learning rate schedule %q: %d warm-up steps of %d, expected no negative number", name, warmup, total)
	}
	a := scheduleArgs{warmup, total, maps.Clone(kwargs)}
	s, err := build(a)
	if err != nil {
		return Schedule{}, fmt.Errorf("learning rate schedule %q: %w", name, err)
	}
	if len(a.kwargs) != 0 {
		return Schedule{}, fmt.Errorf("learning rate schedule %q does not take the arguments %v", name, slices.Sorted(maps.Keys(a.kwargs)))
	}
	s.name = name
	return s, nil
}

// afterWarmup rises linearly from 0 over the warm-up steps and then follows factor.
func (a scheduleArgs) afterWarmup(factor lambda) lambda {
	return func(step int, lr float64) float64 {
		if step < a.warmup {
			return float64(step) / float64(max(1, a.warmup))
		}
		return factor(step, lr)
	}
}

// progress is how much of the steps after the warm-up is done.
func (a scheduleArgs) progress(step int) float64 {
	return float64(step-a.warmup) / float64(max(1, a.total-a.warmup))
}

// number takes an argument out of kwargs; None is as if it were not there.
func (a scheduleArgs) number(name string, fallback float64) (value float64, given bool, err error) {
	v, ok := a.kwargs[name]
	delete(a.kwargs, name)
	if !ok || v == nil {
		return fallback, false, nil
	}
	if value, err = pyobj.AsFloat(v); err == nil && (math.IsNaN(value) || math.IsInf(value, 0)) {
		err = fmt.Errorf("%v is not a finite number", value)
	}
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", name, err)
	}
	return value, true, nil
}

// maxCycles keeps the cosine's arguments where it is correctly rounded.
const maxCycles = 1e6

func (a scheduleArgs) cycles(fallback float64) (float64, error) {
	cycles, _, err := a.number("num_cycles", fallback)
	if err == nil && math.Abs(cycles) > maxCycles {
		err = fmt.Errorf("num_cycles is %v, expected at most %v", cycles, float64(maxCycles))
	}
	return cycles, err
}

// wave is the cosine that the cosine schedules have in common.
func (a scheduleArgs) wave(cycles float64) func(step int) float64 {
	scale := float64(math.Pi*cycles) * 2
	return func(step int) float64 { return 0.5 * (1 + cosine(scale*a.progress(step))) }
}

func newCosine(a scheduleArgs) (Schedule, error) {
	cycles, err := a.cycles(0.5)
	wave := a.wave(cycles)
	return Schedule{factor: a.afterWarmup(func(step int, _ float64) float64 { return max(0, wave(step)) })}, err
}

func newCosineWithRestarts(a scheduleArgs) (Schedule, error) {
	cycles, err := a.cycles(1)
	return Schedule{factor: a.afterWarmup(func(step int, _ float64) float64 {
		progress := a.progress(step)
		if progress >= 1 {
			return 0
		}
		phase := math.Mod(cycles*progress, 1)
		if phase < 0 {
			phase++ // as Python's %
		}
		return max(0, 0.5*(1+cosine(math.Pi*phase)))
	})}, err
}

func newCosineWithMinLR(a scheduleArgs) (Schedule, error) {
	cycles, err := a.cycles(0.5)
	minLR, absolute, err2 := a.number("min_lr", 0)
	rate, relative, err3 := a.number("min_lr_rate", 0)
	err = errors.Join(err, err2, err3)
	if err == nil && absolute == relative {
		err = errors.New("it takes one of the arguments min_lr and min_lr_rate")
	}
	wave := a.wave(cycles)
	return Schedule{factor: a.afterWarmup(func(step int, lr float64) float64 {
		floor := rate
		if absolute {
			floor = minLR / lr
		}
		return max(0, float64(wave(step)*(1-floor))+floor)
	})}, err
}

func newPolynomial(a scheduleArgs) (Schedule, error) {
	end, _, err := a.number("lr_end", 1e-7)
	exponent, _, err2 := a.number("power", 1)
	err = errors.Join(err, err2)
	if err == nil && exponent < 0 {
		err = fmt.Errorf("power is %v, expected 0 or more", exponent)
	}
	if err == nil && a.total == a.warmup {
		err = fmt.Errorf("all of its %d steps are warm-up, so that it has none to decay in", a.total)
	}
	return Schedule{
		factor: a.afterWarmup(func(step int, lr float64) float64 {
			if step > a.total {
				return end / lr
			}
			remaining := 1 - float64(step-a.warmup)/float64(a.total-a.warmup)
			return (float64((lr-end)*pow(remaining, exponent)) + end) / lr
		}),
		checkLR: func(lr float64) error {
			if !(lr > end) {
				return fmt.Errorf("its last learning rate, lr_end %v, must be below the first, %v", end, lr)
			}
			return nil
		},
	}, err
}

func newInverseSqrt(a scheduleArgs) (Schedule, error) {
	fallback := float64(a.warmup)
	if a.warmup == 0 {
		fallback = 10_000
	}
	timescale, _, err := a.number("timescale", fallback)
	if err == nil && !(timescale > 0) {
		err = fmt.Errorf("timescale is %v, expected a number above 0", timescale)
	}
	shift := timescale - float64(a.warmup)
	return Schedule{factor: a.afterWarmup(func(step int, _ float64) float64 {
		return 1 / math.Sqrt((float64(step)+shift)/timescale)
	})}, err
}
