package optim

import (
	"fmt"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// Adam is torch.optim.Adam or torch.optim.AdamW.
type Adam struct {
	groups    []*group
	decoupled bool // made as AdamW, whose weight decay is always decoupled
	updater   updater
}

// group is a parameter group and its line in the state dict.
//
// Its invariants:
//
//  1. options holds what entries says; entries has every key torch writes for
//     a group but "params", in the order in which they are written.
//  2. A state has moments of its parameter's length, or none.
type group struct {
	options    Options
	decoupled  bool
	initialLR  float64 // meaningful if entries holds "initial_lr"
	entries    []pyobj.Entry
	parameters []*parameter
}

// parameter is a parameter and its optimizer state.
type parameter struct {
	*Param
	state
}

// state is one parameter's optimizer state; the zero state is that of a
// parameter that has never been stepped.
type state struct {
	step     float32 // torch counts steps in float32
	expAvg   []float32
	expAvgSq []float32
	// maxExpAvgSq is nil unless the group has AMSGrad set.
	maxExpAvgSq []float32
	extra       []pyobj.Entry // keys of a loaded state that are not known here
}

// started reports whether the parameter has optimizer state.
func (s *state) started() bool { return s.expAvg != nil }

// NewAdam makes a torch.optim.Adam, whose weight decay is added to the gradient.
func NewAdam(groups []Group) (*Adam, error) { return newAdam(groups, false) }

// NewAdamW makes a torch.optim.AdamW, whose weight decay shrinks the parameter.
func NewAdamW(groups []Group) (*Adam, error) { return newAdam(groups, true) }

func newAdam(groups []Group, decoupled bool) (*Adam, error) {
	a := &Adam{decoupled: decoupled}
	seen := map[*Param]bool{}
	for i := range groups {
		g := &groups[i]
		if err := g.validate(); err != nil {
			return nil, fmt.Errorf("optimizer group %d: %w", i, err)
		}
		own := &group{options: g.Options, decoupled: decoupled, entries: newEntries(g, decoupled)}
		for _, p := range g.Params {
			if seen[p] {
				return nil, fmt.Errorf("optimizer group %d: parameter %q is in the optimizer twice", i, p.Name)
			}
			seen[p] = true
			own.parameters = append(own.parameters, &parameter{Param: p})
		}
		a.groups = append(a.groups, own)
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("optimizer got no parameters")
	}
	return a, nil
}

// NumGroups is the number of parameter groups.
func (a *Adam) NumGroups() int { return len(a.groups) }

// Options returns the settings of group i, as the last loaded state dict or
// scheduler left them.
func (a *Adam) Options(i int) Options { return a.groups[i].options }

// LearningRate is the learning rate of group i.
func (a *Adam) LearningRate(i int) float64 { return a.groups[i].options.LR }

// SetLearningRate sets the learning rate of group i.
func (a *Adam) SetLearningRate(i int, lr float64) {
	a.groups[i].options.LR = lr
	a.groups[i].set("lr", lr)
}

// InitialLR is the learning rate of group i that a scheduler scales, if one
// has been attached or the loaded state dict came from such a run.
func (a *Adam) InitialLR(i int) (lr float64, ok bool) {
	return a.groups[i].initialLR, a.groups[i].has("initial_lr")
}

// setInitialLR gives group i an initial learning rate if it has none.
func (a *Adam) setInitialLR(i int, lr float64) {
	if !a.groups[i].has("initial_lr") {
		a.groups[i].initialLR = lr
		a.groups[i].set("initial_lr", lr)
	}
}

// StepCount is the number of steps parameter name has made, 0 if it has none
// or is not in the optimizer.
func (a *Adam) StepCount(name string) int {
	if p := a.find(name); p != nil {
		return int(p.step)
	}
	return 0
}

// Moments are exp_avg and exp_avg_sq of parameter name, to read; nil before
// its first step, and if it is not in the optimizer.
func (a *Adam) Moments(name string) (expAvg, expAvgSq []float32) {
	if p := a.find(name); p != nil {
		return p.expAvg, p.expAvgSq
	}
	return nil, nil
}

func (a *Adam) find(name string) *parameter {
	for _, g := range a.groups {
		for _, p := range g.parameters {
			if p.Name == name {
				return p
			}
		}
	}
	return nil
}

// Step makes one optimizer step: it updates the values of every parameter that
// has a gradient from that gradient, which it does not change.
func (a *Adam) Step() {
	for _, g := range a.groups {
		for _, p := range g.parameters {
			if p.Grad == nil {
				continue
			}
			if !p.started() {
				p.start(g.options.AMSGrad)
			}
			p.step++
			a.updater.update(p, g)
		}
	}
}

// start gives a parameter zero moments.
func (p *parameter) start(amsgrad bool) {
	n := len(p.Values)
	p.state = state{expAvg: newMoment(n), expAvgSq: newMoment(n)}
	if amsgrad {
		p.maxExpAvgSq = newMoment(n)
	}
}

// newMoment returns n zeros; not nil for n = 0, because state is told by it.
func newMoment(n int) []float32 {
	if n == 0 {
		return []float32{}
	}
	return tensor.AlignedFloat32(n)
}
