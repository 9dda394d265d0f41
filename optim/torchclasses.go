package optim

import (
	"fmt"
	"maps"
	"slices"

	"rejoin/pyobj"
)

// torch's scheduler classes that are here.
const (
	LambdaLR          = "LambdaLR"
	StepLR            = "StepLR"
	MultiStepLR       = "MultiStepLR"
	CosineAnnealingLR = "CosineAnnealingLR"
	ReduceLROnPlateau = "ReduceLROnPlateau"
)

// TorchSchedule makes the scheduler of one of torch's classes [StepLR],
// [MultiStepLR] and [CosineAnnealingLR] from its constructor's keyword
// arguments, with torch's defaults: step_size and gamma; milestones and gamma;
// T_max and eta_min. What is returned attaches it to an optimizer.
func TorchSchedule(class string, kwargs map[string]any) (attach func(Rates) *Scheduler, err error) {
	k := keywords{class: class, left: maps.Clone(kwargs)}
	var r rule
	switch class {
	case StepLR:
		s := stepRule{stepSize: k.count("step_size"), gamma: k.number("gamma", 0.1)}
		k.fail(s.validate())
		r = s
	case MultiStepLR:
		m := multiStepRule{gamma: k.number("gamma", 0.1)}
		for _, epoch := range k.counts("milestones") {
			m.add(epoch, 1)
		}
		k.fail(validateGamma(m.gamma))
		r = m
	case CosineAnnealingLR:
		a := annealingRule{tMax: k.count("T_max"), etaMin: k.number("eta_min", 0)}
		k.fail(a.validate())
		r = a
	default:
		return nil, fmt.Errorf("torch's scheduler class %q is not known here", class)
	}
	if err := k.done(); err != nil {
		return nil, err
	}
	return func(optimizer Rates) *Scheduler { return newScheduler(optimizer, r) }, nil
}

// PlateauArguments reads the keyword arguments of torch's ReduceLROnPlateau,
// with its defaults; as in torch, min_lr is a number or a list of them.
func PlateauArguments(kwargs map[string]any) (PlateauOptions, error) {
	k := keywords{class: ReduceLROnPlateau, left: maps.Clone(kwargs)}
	o := DefaultPlateauOptions()
	o.Mode, o.ThresholdMode = k.word("mode", o.Mode), k.word("threshold_mode", o.ThresholdMode)
	o.Factor, o.Threshold, o.Eps = k.number("factor", o.Factor), k.number("threshold", o.Threshold), k.number("eps", o.Eps)
	o.Patience, o.Cooldown = k.countOr("patience", o.Patience), k.countOr("cooldown", o.Cooldown)
	if list, ok := k.left["min_lr"].([]any); ok {
		delete(k.left, "min_lr")
		for i, item := range list {
			o.MinLRs = append(o.MinLRs, k.asNumber(fmt.Sprintf("min_lr[%d]", i), item))
		}
	} else {
		o.MinLR = k.number("min_lr", 0)
	}
	k.fail(o.validate())
	return o, k.done()
}

// SavedScheduler is what a scheduler's state dict says of itself.
type SavedScheduler struct {
	Class string // one of torch's classes that are here; "" for another
	// Arguments are the constants, under the names of the constructor's
	// arguments: int64, float64, string and []any. A LambdaLR has none, as its
	// function is not saved.
	Arguments map[string]any
	Missing   []string // constants that it lacks; then Arguments is nil
	LastEpoch int      // the steps made
	Keys      string   // its keys, for a message
}

// constants are the entries of a state dict that a class's arguments become.
var constants = map[string][]string{
	LambdaLR:          {"lr_lambdas"},
	StepLR:            {"step_size", "gamma"},
	MultiStepLR:       {"milestones", "gamma"},
	CosineAnnealingLR: {"T_max", "eta_min"},
	ReduceLROnPlateau: {"factor", "min_lrs", "patience", "cooldown", "eps", "mode", "threshold", "threshold_mode"},
}

// marks are keys that no other class of torch's has.
var marks = map[string]string{
	"lr_lambdas": LambdaLR, "step_size": StepLR, "milestones": MultiStepLR, "T_max": CosineAnnealingLR,
	"mode_worse": ReduceLROnPlateau, "num_bad_epochs": ReduceLROnPlateau,
}

// DescribeScheduler tells a scheduler's class by the keys of its state dict, and
// reads its constants. The error is a [*StateError].
func DescribeScheduler(d *pyobj.Dict) (SavedScheduler, error) {
	s := SavedScheduler{Keys: keyList(d)}
	for _, e := range d.Entries() {
		if name, ok := e.Key.(string); ok && s.Class == "" {
			s.Class = marks[name]
		}
	}
	r := schedulerReader{dict: d, class: "a scheduler's state dict"}
	s.LastEpoch = r.count("last_epoch", 0)
	for _, key := range constants[s.Class] {
		if _, ok := d.Get(key); !ok {
			s.Missing = append(s.Missing, key)
		}
	}
	if r.err != nil || s.Missing != nil {
		return s, r.err
	}
	switch s.Class {
	case StepLR:
		s.Arguments = stepRule{}.load(&r).arguments()
	case MultiStepLR:
		s.Arguments = multiStepRule{}.load(&r).arguments()
	case CosineAnnealingLR:
		s.Arguments = annealingRule{}.load(&r).arguments()
	case ReduceLROnPlateau:
		o := readPlateau(&r)
		s.Arguments = o.arguments()
	}
	return s, r.err
}

// SchedulerArguments are the constants that kwargs make for a class, with
// torch's defaults, as [DescribeScheduler] gives them.
func SchedulerArguments(class string, kwargs map[string]any) (map[string]any, error) {
	if class == ReduceLROnPlateau {
		o, err := PlateauArguments(kwargs)
		return o.arguments(), err
	}
	attach, err := TorchSchedule(class, kwargs)
	if err != nil {
		return nil, err
	}
	return attach(noGroups{}).rule.arguments(), nil
}

// noGroups is an optimizer without parameter groups.
type noGroups struct{ Rates }

func (noGroups) NumGroups() int { return 0 }

func (noGroups) DefaultLR() float64 { return 0 }

// keywords takes a constructor's keyword arguments; the first error sticks.
type keywords struct {
	class string
	left  map[string]any // not taken yet
	err   error
}

func (k *keywords) fail(err error) {
	if err != nil && k.err == nil {
		k.err = fmt.Errorf("%s: %w", k.class, err)
	}
}

// take is an argument's value; None is as if it were not there.
func (k *keywords) take(name string) (any, bool) {
	v, ok := k.left[name]
	delete(k.left, name)
	return v, ok && v != nil
}

func (k *keywords) number(name string, fallback float64) float64 {
	if v, ok := k.take(name); ok {
		return k.asNumber(name, v)
	}
	return fallback
}

func (k *keywords) asNumber(name string, v any) float64 {
	f, err := pyobj.AsFloat(v)
	if err != nil {
		k.fail(fmt.Errorf("%s: %w", name, err))
	}
	return f
}

func (k *keywords) word(name, fallback string) string {
	v, ok := k.take(name)
	if !ok {
		return fallback
	}
	s, ok := v.(string)
	if !ok {
		k.fail(fmt.Errorf("%s: expected a word, found %v", name, v))
	}
	return s
}

// count is a whole number that has no default.
func (k *keywords) count(name string) int {
	v, ok := k.take(name)
	if !ok {
		k.fail(fmt.Errorf("argument %s is missing", name))
		return 0
	}
	return k.asCount(name, v)
}

func (k *keywords) countOr(name string, fallback int) int {
	if v, ok := k.take(name); ok {
		return k.asCount(name, v)
	}
	return fallback
}

// counts is a list of whole numbers that has no default.
func (k *keywords) counts(name string) (counts []int) {
	v, ok := k.take(name)
	if !ok {
		k.fail(fmt.Errorf("argument %s is missing", name))
		return nil
	}
	items, ok := v.([]any)
	if !ok {
		k.fail(fmt.Errorf("%s: expected a list, found %v", name, v))
	}
	for i, item := range items {
		counts = append(counts, k.asCount(fmt.Sprintf("%s[%d]", name, i), item))
	}
	return counts
}

func (k *keywords) asCount(name string, v any) int {
	f, err := pyobj.AsFloat(v)
	if err == nil && (f != float64(int64(f)) || f < 0 || f > maxCount) {
		err = fmt.Errorf("expected a whole number, 0 or more, found %v", v)
	}
	if err != nil {
		k.fail(fmt.Errorf("%s: %w", name, err))
		return 0
	}
	return int(f)
}

// done refuses what nothing has taken, and returns the first error.
func (k *keywords) done() error {
	if len(k.left) != 0 {
		k.fail(fmt.Errorf("it does not take the arguments %v", slices.Sorted(maps.Keys(k.left))))
	}
	return k.err
}
