package optim

import (
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
	factor func(step int) float64
	// function tells torch's two ways of saving a lambda: a plain function as
	// None, a functools.partial as its empty __dict__.
	function bool
}

// Name is the schedule's name.
func (s Schedule) Name() string { return s.name }

// Factor is the multiplier at step, counted from 0.
func (s Schedule) Factor(step int) float64 { return s.factor(step) }

// newSchedule makes one kind of schedule; warmup and total are counts of
// optimizer steps. It takes the arguments it knows out of kwargs.
type newSchedule func(warmup, total int, kwargs map[string]any) (Schedule, error)

var schedules = map[string]newSchedule{
	"constant": func(int, int, map[string]any) (Schedule, error) {
		return Schedule{factor: func(int) float64 { return 1 }, function: true}, nil
	},
	"constant_with_warmup": func(warmup, _ int, _ map[string]any) (Schedule, error) {
		return Schedule{factor: afterWarmup(warmup, func(int) float64 { return 1 })}, nil
	},
	"linear": func(warmup, total int, _ map[string]any) (Schedule, error) {
		return Schedule{factor: afterWarmup(warmup, func(step int) float64 {
			return max(0, float64(total-step)/float64(max(1, total-warmup)))
		})}, nil
	},
	"cosine": newCosine,
}

// NewSchedule makes the schedule that Hugging Face's lr_scheduler_type names:
// "linear", "cosine", "constant" or "constant_with_warmup". warmup and total
// are numbers of optimizer steps; kwargs are lr_scheduler_kwargs: num_cycles,
// of cosine only.
//
//	warm-up   step / max(1, warmup)                       while step < warmup
//	linear    max(0, (total-step) / max(1, total-warmup))
//	cosine    max(0, (1 + cos(π·cycles·2·progress)) / 2)  cycles: num_cycles, 0.5 if not given
//	          progress = (step-warmup) / max(1, total-warmup)
//
// The formulas and their order of operations are those of transformers 5.12,
// optimization.py. The cosine is correctly rounded; glibc's differs from that
// in the last place for about one argument in a thousand.
func NewSchedule(name string, warmup, total int, kwargs map[string]any) (Schedule, error) {
	build, ok := schedules[name]
	if !ok {
		return Schedule{}, fmt.Errorf("learning rate schedule %q is not known; known are %v", name, slices.Sorted(maps.Keys(schedules)))
	}
	if warmup < 0 || total < 0 {
		return Schedule{}, fmt.Errorf("learning rate schedule %q: %d warm-up steps of %d, expected no negative number", name, warmup, total)
	}
	rest := maps.Clone(kwargs)
	s, err := build(warmup, total, rest)
	if err != nil {
		return Schedule{}, fmt.Errorf("learning rate schedule %q: %w", name, err)
	}
	if len(rest) != 0 {
		return Schedule{}, fmt.Errorf("learning rate schedule %q does not take the arguments %v", name, slices.Sorted(maps.Keys(rest)))
	}
	s.name = name
	return s, nil
}

// afterWarmup rises linearly from 0 over warmup steps and then follows factor.
func afterWarmup(warmup int, factor func(step int) float64) func(step int) float64 {
	return func(step int) float64 {
		if step < warmup {
			return float64(step) / float64(max(1, warmup))
		}
		return factor(step)
	}
}

// maxCycles keeps the cosine's arguments where it is correctly rounded.
const maxCycles = 1e6

func newCosine(warmup, total int, kwargs map[string]any) (Schedule, error) {
	cycles := 0.5
	if v, ok := kwargs["num_cycles"]; ok {
		delete(kwargs, "num_cycles")
		var err error
		if cycles, err = pyobj.AsFloat(v); err != nil {
			return Schedule{}, fmt.Errorf("num_cycles: %w", err)
		}
		if !(math.Abs(cycles) <= maxCycles) {
			return Schedule{}, fmt.Errorf("num_cycles is %v, expected at most %v", cycles, float64(maxCycles))
		}
	}
	scale := float64(math.Pi*cycles) * 2
	return Schedule{factor: afterWarmup(warmup, func(step int) float64 {
		progress := float64(step-warmup) / float64(max(1, total-warmup))
		return max(0, 0.5*(1+cosine(scale*progress)))
	})}, nil
}
