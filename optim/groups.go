package optim

import (
	"fmt"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// base is what all optimizers share, as torch.optim.Optimizer: parameters in
// groups, and the state dict around what an algorithm keeps.
type base struct {
	algorithm algorithm
	groups    []*group
	// defaultLR is the learning rate that the optimizer was made with, which no
	// state dict changes.
	defaultLR float64
	notices   []string
}

// algorithm is where one optimizer's state dict differs from another's.
type algorithm interface {
	// readOptions reads a group's line into g, which gets torch's defaults for
	// the keys that files of older versions lack.
	readOptions(r *groupReader, g *group)
	// shapeKeys name the entries of a parameter's state that have its shape, in
	// the order in which they are looked for; missing tells what has none of them.
	shapeKeys() (keys []string, missing string)
	// readState reads the entry of a parameter's state.
	readState(r *stateReader, s *state, amsgrad bool)
	// stateDict is the parameter's state, nil for none, with its buffers as tensors
	// that of makes.
	stateDict(p *parameter, of tensorOf) *pyobj.Dict
}

// group is a parameter group and its line in the state dict.
//
// Its invariants:
//
//  1. options holds what entries says; entries has every key torch writes for
//     a group but "params", in the order in which they are written.
//  2. A state's tensors have their parameter's length, or are nil.
type group struct {
	options    Options
	decoupled  bool    // Adam's weight decay is AdamW's
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
	step     float32 // Adam's; torch counts steps in float32
	expAvg   []float32
	expAvgSq []float32
	// maxExpAvgSq is nil unless the group has AMSGrad set.
	maxExpAvgSq []float32
	// momentum is SGD's momentum_buffer; nil before the first step with momentum.
	momentum []float32
	// listed: there is an entry for the parameter, if only with a None in it.
	listed bool
	extra  []pyobj.Entry // keys of a loaded state that are not known here
}

// newBase takes the groups in; lines are theirs in the state dict.
func newBase(groups []Group, line func(*Group) *group) (base, error) {
	var b base
	seen := map[*Param]bool{}
	for i := range groups {
		g := &groups[i]
		own := line(g)
		for _, p := range g.Params {
			if seen[p] {
				return base{}, fmt.Errorf("optimizer group %d: parameter %q is in the optimizer twice", i, p.Name)
			}
			seen[p] = true
			own.parameters = append(own.parameters, &parameter{Param: p})
		}
		b.groups = append(b.groups, own)
	}
	if len(seen) == 0 {
		return base{}, fmt.Errorf("optimizer got no parameters")
	}
	b.defaultLR = groups[0].LR
	return b, nil
}

// NumGroups is the number of parameter groups.
func (b *base) NumGroups() int { return len(b.groups) }

// Options returns the settings of group i, as the last loaded state dict or
// scheduler left them.
func (b *base) Options(i int) Options { return b.groups[i].options }

// LearningRate is the learning rate of group i.
func (b *base) LearningRate(i int) float64 { return b.groups[i].options.LR }

// SetLearningRate sets the learning rate of group i.
func (b *base) SetLearningRate(i int, lr float64) {
	b.groups[i].options.LR = lr
	b.groups[i].set("lr", lr)
}

// DefaultLR is the learning rate that the first group was made with: torch's
// optimizer.defaults["lr"], which loading a state dict does not change.
func (b *base) DefaultLR() float64 { return b.defaultLR }

// InitialLR is the learning rate of group i that a scheduler scales, if one
// has been attached or the loaded state dict came from such a run.
func (b *base) InitialLR(i int) (lr float64, ok bool) {
	return b.groups[i].initialLR, b.groups[i].has("initial_lr")
}

// SetInitialLR sets the learning rate of group i that a scheduler scales.
func (b *base) SetInitialLR(i int, lr float64) {
	b.groups[i].initialLR = lr
	b.groups[i].set("initial_lr", lr)
}

// Notices says, a sentence each, what the last LoadStateDict had to decide or
// could not read exactly; nil if nothing.
func (b *base) Notices() []string { return b.notices }

// GroupNames lists the parameters' names by group, in the state dict's order.
func (b *base) GroupNames() [][]string {
	names := make([][]string, len(b.groups))
	for i, g := range b.groups {
		for _, p := range g.parameters {
			names[i] = append(names[i], p.Name)
		}
	}
	return names
}

// State is what the optimizer keeps for parameter name, to read: the number of
// its steps, 0 where the algorithm does not count, and its tensors in the state
// dict's order; nil before its first step, and if it is not in the optimizer.
func (b *base) State(name string) (steps int, tensors [][]float32) {
	p := b.find(name)
	if p == nil {
		return 0, nil
	}
	for _, t := range [][]float32{p.expAvg, p.expAvgSq, p.maxExpAvgSq, p.momentum} {
		if t != nil {
			tensors = append(tensors, t)
		}
	}
	return int(p.step), tensors
}

// StepCount is the number of steps parameter name has made, 0 if it has none,
// is not in the optimizer, or the algorithm does not count.
func (b *base) StepCount(name string) int {
	steps, _ := b.State(name)
	return steps
}

func (b *base) find(name string) *parameter {
	for _, g := range b.groups {
		for _, p := range g.parameters {
			if p.Name == name {
				return p
			}
		}
	}
	return nil
}

// StateDict is the optimizer's state in the layout of torch's state_dict, what
// optimizer.pt holds:
//
//	{"state": {i: {"step", "exp_avg", "exp_avg_sq"[, "max_exp_avg_sq"]}},   Adam
//	 "state": {i: {"momentum_buffer"}},                                    SGD
//	 "param_groups": [{"lr", …, "params": [i, …]}]}
//
// Parameters are numbered through all groups. Step is a 0-d float32 tensor, the
// others are float32 tensors of the parameter's shape; all are copies. A
// parameter that was never stepped has no state, so before the first step
// "state" is empty; so it stays for SGD without momentum.
func (b *base) StateDict() *pyobj.Dict { return b.stateDict(tensor.FromFloat32) }

// StateDictView is StateDict without the copies: it is valid until the next step.
func (b *base) StateDictView() *pyobj.Dict { return b.stateDict(tensor.ViewFloat32) }

// tensorOf makes a tensor of values: a copy, or a view.
type tensorOf func(values []float32, shape ...int) *tensor.Tensor

func (b *base) stateDict(of tensorOf) *pyobj.Dict {
	states := pyobj.NewDict()
	groups := &pyobj.List{}
	index := 0
	for _, g := range b.groups {
		line := pyobj.NewDict()
		for _, e := range g.entries {
			line.Set(e.Key, e.Value)
		}
		numbers := &pyobj.List{}
		for _, p := range g.parameters {
			numbers.Items = append(numbers.Items, int64(index))
			if d := b.algorithm.stateDict(p, of); d != nil {
				for _, e := range p.extra {
					d.Set(e.Key, e.Value)
				}
				states.Set(int64(index), d)
			}
			index++
		}
		line.Set("params", numbers)
		groups.Items = append(groups.Items, line)
	}
	return pyobj.NewDict("state", states, "param_groups", groups)
}

// newMoment returns n zeros; not nil for n = 0, because state is told by it.
func newMoment(n int) []float32 {
	if n == 0 {
		return []float32{}
	}
	return tensor.AlignedFloat32(n)
}
