package optim

import (
	"fmt"
	"math"
	"slices"

	"rejoin/pyobj"
)

// NewStepLR attaches torch's StepLR: every stepSize epochs the rates are
// multiplied by gamma. As in torch, the rates are multiplied one after another.
func NewStepLR(optimizer Rates, stepSize int, gamma float64) (*Scheduler, error) {
	r := stepRule{stepSize: stepSize, gamma: gamma}
	if err := r.validate(); err != nil {
		return nil, fmt.Errorf("StepLR: %w", err)
	}
	return newScheduler(optimizer, r), nil
}

// stepRule is torch's StepLR.
type stepRule struct {
	stepSize int
	gamma    float64
}

func (s stepRule) validate() error {
	if s.stepSize < 1 {
		return fmt.Errorf("step_size is %d, expected 1 or more", s.stepSize)
	}
	return validateGamma(s.gamma)
}

func validateGamma(gamma float64) error {
	if !(gamma >= 0) || math.IsInf(gamma, 0) {
		return fmt.Errorf("gamma is %v, expected a finite number, 0 or more", gamma)
	}
	return nil
}

func (s stepRule) next(epoch int, current, _, _ float64) float64 {
	if epoch == 0 || epoch%s.stepSize != 0 {
		return current
	}
	return current * s.gamma
}

func (s stepRule) at(epoch int, base, _ float64) float64 {
	return base * pow(s.gamma, float64(epoch/s.stepSize))
}

func (s stepRule) attributes(int) (entries []pyobj.Entry, first bool) {
	return []pyobj.Entry{{Key: "step_size", Value: int64(s.stepSize)}, {Key: "gamma", Value: s.gamma}}, true
}

func (stepRule) class() string { return StepLR }

func (s stepRule) arguments() map[string]any {
	return map[string]any{"step_size": int64(s.stepSize), "gamma": s.gamma}
}

func (s stepRule) load(r *schedulerReader) rule {
	r.class = "a StepLR's state dict"
	next := stepRule{stepSize: r.count("step_size", 1), gamma: r.number("gamma")}
	r.fail("", next.validate())
	return next
}

// NewMultiStepLR attaches torch's MultiStepLR: at every milestone the rates are
// multiplied by gamma, as often as it is listed. As in torch, the rates are
// multiplied one after another.
func NewMultiStepLR(optimizer Rates, milestones []int, gamma float64) (*Scheduler, error) {
	r := multiStepRule{gamma: gamma}
	for _, m := range milestones {
		if m < 0 {
			return nil, fmt.Errorf("MultiStepLR: milestone %d is negative", m)
		}
		r.add(m, 1)
	}
	if err := validateGamma(gamma); err != nil {
		return nil, fmt.Errorf("MultiStepLR: %w", err)
	}
	return newScheduler(optimizer, r), nil
}

// multiStepRule is torch's MultiStepLR.
type multiStepRule struct {
	milestones []milestone // as collections.Counter keeps them: by first mention
	gamma      float64
}

type milestone struct{ epoch, times int }

func (m *multiStepRule) add(epoch, times int) {
	i := slices.IndexFunc(m.milestones, func(s milestone) bool { return s.epoch == epoch })
	if i < 0 {
		m.milestones = append(m.milestones, milestone{epoch, times})
		return
	}
	m.milestones[i].times += times
}

func (m multiStepRule) next(epoch int, current, _, _ float64) float64 {
	for _, s := range m.milestones {
		if s.epoch == epoch {
			return current * pow(m.gamma, float64(s.times))
		}
	}
	return current
}

func (m multiStepRule) at(epoch int, base, _ float64) float64 {
	passed := 0
	for _, s := range m.milestones {
		if s.epoch <= epoch {
			passed += s.times
		}
	}
	return base * pow(m.gamma, float64(passed))
}

func (m multiStepRule) attributes(int) (entries []pyobj.Entry, first bool) {
	counter := &pyobj.Dict{Kind: pyobj.Counter}
	for _, s := range m.milestones {
		counter.Set(int64(s.epoch), int64(s.times))
	}
	return []pyobj.Entry{{Key: "milestones", Value: counter}, {Key: "gamma", Value: m.gamma}}, true
}

func (multiStepRule) class() string { return MultiStepLR }

func (m multiStepRule) arguments() map[string]any {
	var epochs []any
	for _, s := range m.milestones {
		for range s.times {
			epochs = append(epochs, int64(s.epoch))
		}
	}
	return map[string]any{"milestones": epochs, "gamma": m.gamma}
}

func (m multiStepRule) load(r *schedulerReader) rule {
	r.class = "a MultiStepLR's state dict"
	var next multiStepRule
	if v, ok := r.value("milestones"); ok {
		counter, err := pyobj.AsDict(v)
		r.fail("milestones", err)
		if err == nil {
			next.count(r, counter)
		}
	}
	next.gamma = r.number("gamma")
	r.fail("gamma", validateGamma(next.gamma))
	return next
}

// count reads the Counter.
func (m *multiStepRule) count(r *schedulerReader, counter *pyobj.Dict) {
	for _, e := range counter.Entries() {
		epoch, err := pyobj.AsInt(e.Key)
		times, err2 := pyobj.AsInt(e.Value)
		switch {
		case err != nil:
			r.fail("milestones", err)
		case err2 != nil:
			r.fail("milestones", err2)
		case epoch < 0 || epoch > maxCount || times < 0 || times > maxCount:
			r.fail("milestones", fmt.Errorf("%d, %d times, is not a milestone", epoch, times))
		default:
			m.add(int(epoch), int(times))
		}
	}
}

// NewCosineAnnealingLR attaches torch's CosineAnnealingLR: from the initial
// rates down to etaMin after tMax epochs, and up again. As in torch, each rate
// is computed from the one before.
func NewCosineAnnealingLR(optimizer Rates, tMax int, etaMin float64) (*Scheduler, error) {
	r := annealingRule{tMax: tMax, etaMin: etaMin}
	if err := r.validate(); err != nil {
		return nil, fmt.Errorf("CosineAnnealingLR: %w", err)
	}
	return newScheduler(optimizer, r), nil
}

// annealingRule is torch's CosineAnnealingLR.
type annealingRule struct {
	tMax   int
	etaMin float64
}

func (a annealingRule) validate() error {
	switch {
	case a.tMax < 1:
		return fmt.Errorf("argument T_max is %d, expected 1 or more", a.tMax)
	case !(a.etaMin >= 0) || math.IsInf(a.etaMin, 0):
		return fmt.Errorf("eta_min is %v, expected a finite number, 0 or more", a.etaMin)
	}
	return nil
}

func (a annealingRule) next(epoch int, current, base, _ float64) float64 {
	switch {
	case epoch == 0:
		return current
	case (epoch-1-a.tMax)%(2*a.tMax) == 0:
		return current + float64((base-a.etaMin)*(1-cosine(math.Pi/float64(a.tMax))))/2
	}
	ratio := (1 + a.cosineAt(epoch)) / (1 + a.cosineAt(epoch-1))
	return float64(ratio*(current-a.etaMin)) + a.etaMin
}

func (a annealingRule) cosineAt(epoch int) float64 {
	return cosine(math.Pi * float64(epoch) / float64(a.tMax))
}

func (a annealingRule) at(epoch int, base, _ float64) float64 {
	return a.etaMin + float64((base-a.etaMin)*(1+a.cosineAt(epoch)))/2
}

func (a annealingRule) attributes(int) (entries []pyobj.Entry, first bool) {
	return []pyobj.Entry{{Key: "T_max", Value: int64(a.tMax)}, {Key: "eta_min", Value: a.etaMin}}, true
}

func (annealingRule) class() string { return CosineAnnealingLR }

func (a annealingRule) arguments() map[string]any {
	return map[string]any{"T_max": int64(a.tMax), "eta_min": a.etaMin}
}

func (a annealingRule) load(r *schedulerReader) rule {
	r.class = "a CosineAnnealingLR's state dict"
	next := annealingRule{tMax: r.count("T_max", 1), etaMin: r.number("eta_min")}
	r.fail("", next.validate())
	return next
}
