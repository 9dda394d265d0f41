package optim

import (
	"fmt"
	"math"
	"slices"

	"rejoin/pyobj"
)

// PlateauOptions are the arguments of torch's ReduceLROnPlateau.
type PlateauOptions struct {
	Mode          string  // "min": lower is better; "max"
	Factor        float64 // by which rates are multiplied; below 1
	Patience      int     // bad epochs that are borne
	Threshold     float64
	ThresholdMode string    // "rel" or "abs"
	Cooldown      int       // epochs after a reduction in which none counts as bad
	MinLR         float64   // of every group
	MinLRs        []float64 // one for each group, in place of MinLR; nil for none
	Eps           float64   // a smaller change of a rate is not made
}

// DefaultPlateauOptions are torch's defaults.
func DefaultPlateauOptions() PlateauOptions {
	return PlateauOptions{Mode: "min", Factor: 0.1, Patience: 10, Threshold: 1e-4, ThresholdMode: "rel", Eps: 1e-8}
}

func (o *PlateauOptions) validate() error {
	finite := func(f float64) bool { return f >= 0 && f <= maxLR }
	switch {
	case o.Mode != "min" && o.Mode != "max":
		return fmt.Errorf("mode is %q, expected min or max", o.Mode)
	case o.ThresholdMode != "rel" && o.ThresholdMode != "abs":
		return fmt.Errorf("threshold_mode is %q, expected rel or abs", o.ThresholdMode)
	case !(o.Factor >= 0 && o.Factor < 1):
		return fmt.Errorf("factor is %v, expected a number in [0, 1)", o.Factor)
	case o.Patience < 0 || o.Cooldown < 0:
		return fmt.Errorf("patience is %d and cooldown %d, expected 0 or more", o.Patience, o.Cooldown)
	case slices.ContainsFunc(o.MinLRs, func(lr float64) bool { return !finite(lr) }):
		return fmt.Errorf("min_lr is %v, expected finite numbers, 0 or more", o.MinLRs)
	case !finite(o.Threshold) || !finite(o.MinLR) || !finite(o.Eps):
		return fmt.Errorf("threshold is %v, min_lr %v and eps %v, expected finite numbers, 0 or more", o.Threshold, o.MinLR, o.Eps)
	}
	return nil
}

// arguments are the options as the constructor takes them.
func (o *PlateauOptions) arguments() map[string]any {
	var minLR any = o.MinLR
	if o.MinLRs != nil {
		var list []any
		for _, lr := range o.MinLRs {
			list = append(list, lr)
		}
		minLR = list
	}
	return map[string]any{
		"mode": o.Mode, "factor": o.Factor, "patience": int64(o.Patience), "threshold": o.Threshold,
		"threshold_mode": o.ThresholdMode, "cooldown": int64(o.Cooldown), "min_lr": minLR, "eps": o.Eps,
	}
}

// Plateau is torch's ReduceLROnPlateau: it lowers the learning rates when a
// metric has stopped improving.
type Plateau struct {
	optimizer Rates
	options   PlateauOptions
	// defaultMinLR is None where min_lr was given as a list.
	defaultMinLR any
	minLRs       []float64
	lastEpoch    int
	lastLR       []float64
	best         float64
	cooldown     int
	badEpochs    int
	extra        []pyobj.Entry
}

// NewPlateau attaches a ReduceLROnPlateau to an optimizer. Unlike a
// [Scheduler], it leaves the rates as they are until a metric tells otherwise.
func NewPlateau(optimizer Rates, o PlateauOptions) (*Plateau, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("ReduceLROnPlateau: %w", err)
	}
	groups := optimizer.NumGroups()
	p := &Plateau{optimizer: optimizer, options: o, defaultMinLR: number(o.MinLR)}
	p.minLRs = slices.Repeat([]float64{o.MinLR}, groups)
	if o.MinLRs != nil {
		p.minLRs, p.defaultMinLR = slices.Clone(o.MinLRs), nil
	}
	if len(p.minLRs) != groups {
		return nil, fmt.Errorf("ReduceLROnPlateau: min_lr has %d values, the optimizer has %d parameter groups", len(p.minLRs), groups)
	}
	p.Restart()
	return p, nil
}

// Class is torch's, [ReduceLROnPlateau].
func (p *Plateau) Class() string { return ReduceLROnPlateau }

// Restart forgets what was measured; the rates stay as they are.
func (p *Plateau) Restart() {
	p.best, p.lastEpoch, p.cooldown, p.badEpochs = worst(p.options.Mode), 0, 0, 0
	p.noteRates()
}

// worst is what every metric is better than.
func worst(mode string) float64 {
	if mode == "max" {
		return math.Inf(-1)
	}
	return math.Inf(1)
}

func (p *Plateau) noteRates() {
	p.lastLR = make([]float64, p.optimizer.NumGroups())
	for i := range p.lastLR {
		p.lastLR[i] = p.optimizer.LearningRate(i)
	}
}

// Step takes an epoch's metric in and lowers the rates if it is time to.
func (p *Plateau) Step(metric float64) {
	p.lastEpoch++
	if p.better(metric) {
		p.best, p.badEpochs = metric, 0
	} else {
		p.badEpochs++
	}
	if p.cooldown > 0 {
		p.cooldown--
		p.badEpochs = 0
	}
	if p.badEpochs > p.options.Patience {
		p.reduce()
		p.cooldown, p.badEpochs = p.options.Cooldown, 0
	}
	p.noteRates()
}

func (p *Plateau) better(metric float64) bool {
	o := &p.options
	switch {
	case o.Mode == "min" && o.ThresholdMode == "rel":
		return metric < p.best*(1-o.Threshold)
	case o.Mode == "min":
		return metric < p.best-o.Threshold
	case o.ThresholdMode == "rel":
		return metric > p.best*(o.Threshold+1)
	}
	return metric > p.best+o.Threshold
}

func (p *Plateau) reduce() {
	for i := range p.optimizer.NumGroups() {
		old := p.optimizer.LearningRate(i)
		reduced := max(old*p.options.Factor, p.minLRs[i])
		if old-reduced > p.options.Eps {
			p.optimizer.SetLearningRate(i, reduced)
		}
	}
}

// LastLR are the learning rates per group after the last step. The caller must
// not change the slice.
func (p *Plateau) LastLR() []float64 { return p.lastLR }

// LastEpoch is the number of metrics that were taken in.
func (p *Plateau) LastEpoch() int { return p.lastEpoch }

// StateDict is the state as torch's state_dict gives it.
func (p *Plateau) StateDict() *pyobj.Dict {
	o := &p.options
	minLRs := floatList(p.minLRs)
	if _, isInt := p.defaultMinLR.(int64); isInt {
		for i := range minLRs.Items {
			minLRs.Items[i] = p.defaultMinLR
		}
	}
	d := pyobj.NewDict(
		"factor", o.Factor, "default_min_lr", p.defaultMinLR, "min_lrs", minLRs,
		"patience", int64(o.Patience), "cooldown", int64(o.Cooldown), "eps", o.Eps,
		"last_epoch", int64(p.lastEpoch), "_last_lr", floatList(p.lastLR),
		"mode_worse", worst(o.Mode), "mode", o.Mode, "threshold", o.Threshold, "threshold_mode", o.ThresholdMode,
		"best", p.best, "cooldown_counter", int64(p.cooldown), "num_bad_epochs", int64(p.badEpochs),
	)
	for _, e := range p.extra {
		d.Set(e.Key, e.Value)
	}
	return d
}

// LoadStateDict replaces everything by a state dict: the options, too. The
// optimizer's learning rates stay, as in torch.
//
// The error is a [*StateError]; then nothing has changed.
func (p *Plateau) LoadStateDict(d *pyobj.Dict) error {
	r := schedulerReader{dict: d, groups: p.optimizer.NumGroups(), class: "a ReduceLROnPlateau's state dict"}
	next := Plateau{optimizer: p.optimizer, options: readPlateau(&r)}
	next.minLRs, next.defaultMinLR = r.rates("min_lrs"), number(next.options.MinLR)
	if v, ok := d.Get("default_min_lr"); ok {
		next.defaultMinLR = v // 0 or 0.0, as it was
	} else if next.options.MinLRs != nil {
		next.defaultMinLR = nil
	}
	next.lastEpoch = r.count("last_epoch", 0)
	next.noteRates()
	if r.has("_last_lr") { // in torch 1.13 only after a first step
		next.lastLR = r.rates("_last_lr")
	}
	next.cooldown, next.badEpochs = r.count("cooldown_counter", 0), r.count("num_bad_epochs", 0)
	r.value("mode_worse")
	if v, ok := r.value("best"); ok {
		var err error
		next.best, err = readScalar(v)
		r.fail("best", err)
	}
	if r.err != nil {
		return r.err
	}
	next.extra = r.extra()
	*p = next
	return nil
}

// readPlateau reads the options in a state dict. That of torch 1.13 has no
// default_min_lr; then equal min_lrs are taken for one that was given.
func readPlateau(r *schedulerReader) (o PlateauOptions) {
	o.Factor, o.MinLRs = r.number("factor"), r.list("min_lrs")
	o.Patience, o.Cooldown = r.count("patience", 0), r.count("cooldown", 0)
	o.Eps, o.Threshold = r.number("eps"), r.number("threshold")
	o.Mode, o.ThresholdMode = r.word("mode", "min", "max"), r.word("threshold_mode", "rel", "abs")
	one := len(o.MinLRs) > 0
	if r.has("default_min_lr") {
		v, _ := r.value("default_min_lr")
		one = v != nil
		if one {
			o.MinLR = r.number("default_min_lr")
		}
	} else if one {
		o.MinLR = o.MinLRs[0]
		one = !slices.ContainsFunc(o.MinLRs, func(lr float64) bool { return lr != o.MinLR })
	}
	if one {
		o.MinLRs = nil
	} else {
		o.MinLR = 0
	}
	r.fail("", o.validate())
	return o
}
