package dictfile

import (
	"fmt"

	"rejoin/pyobj"
)

// Kind is the class of optimizer that a state is of.
type Kind uint8

// The kinds that can be told by a group's keys. Before torch 2.7, Adam and
// AdamW wrote the same keys; AdamOrAdamW is such a state, with weight decay, on
// which they differ.
const (
	UnknownKind Kind = iota
	Adam
	AdamW
	AdamOrAdamW
	SGD
)

func (k Kind) String() string {
	return [...]string{"unknown", "Adam", "AdamW", "Adam or AdamW", "SGD"}[k]
}

// Group is what a state_dict's first parameter group says of the optimizer.
type Group struct {
	Kind   Kind
	Groups int // the number of groups
	// LR is the learning rate now, InitialLR the one that a scheduler scales, LR
	// if there is none.
	LR, InitialLR float64
	WeightDecay   float64
	Beta1, Beta2  float64 // Adam's, as Eps
	Eps           float64
	Momentum      float64 // SGD's, as Dampening
	Dampening     float64
	Fused         bool
	// Steps is the largest step count of a parameter; 0 if the optimizer does not count.
	Steps int
}

// FirstGroup reads the first parameter group of the optimizer's state.
func (c *Contents) FirstGroup() (Group, error) {
	v, _ := c.Optimizer.Get("param_groups")
	items, err := pyobj.AsItems(v)
	if err != nil || len(items) == 0 {
		return Group{}, &NotRecognisedError{fmt.Sprintf("key %q: expected a list of parameter groups", c.optimizerKey)}
	}
	line, err := pyobj.AsDict(items[0])
	if err != nil {
		return Group{}, &NotRecognisedError{fmt.Sprintf("key %q: parameter group 0: %v", c.optimizerKey, err)}
	}
	g := Group{Groups: len(items), Steps: c.steps()}
	for key, to := range map[string]*float64{
		"lr": &g.LR, "weight_decay": &g.WeightDecay, "eps": &g.Eps, "momentum": &g.Momentum, "dampening": &g.Dampening,
	} {
		*to, _ = number(line, key)
	}
	g.InitialLR = g.LR
	if lr, ok := number(line, "initial_lr"); ok {
		g.InitialLR = lr
	}
	if betas, ok := line.Get("betas"); ok {
		if two, err := pyobj.AsItems(betas); err == nil && len(two) == 2 {
			g.Beta1, _ = scalar(two[0])
			g.Beta2, _ = scalar(two[1])
		}
	}
	fused, _ := line.Get("fused")
	g.Fused, _ = fused.(bool)
	g.Kind = kindOf(items, line)
	return g, nil
}

// kindOf tells the optimizer by the keys of its groups.
func kindOf(groups []any, first *pyobj.Dict) Kind {
	has := func(key string) bool { _, ok := first.Get(key); return ok }
	switch {
	case has("momentum") && has("dampening"):
		return SGD
	case !has("betas") || !has("amsgrad"):
		return UnknownKind
	}
	if v, ok := first.Get("decoupled_weight_decay"); ok {
		if decoupled, _ := v.(bool); decoupled {
			return AdamW
		}
		return Adam
	}
	for _, g := range groups {
		if d, ok := g.(*pyobj.Dict); ok {
			if decay, _ := number(d, "weight_decay"); decay != 0 {
				return AdamOrAdamW
			}
		}
	}
	return Adam
}

// steps is the largest step count in the state.
func (c *Contents) steps() (steps int) {
	v, _ := c.Optimizer.Get("state")
	states, ok := v.(*pyobj.Dict)
	if !ok {
		return 0
	}
	for _, e := range states.Entries() {
		if d, ok := e.Value.(*pyobj.Dict); ok {
			if n, ok := number(d, "step"); ok && n >= 0 && n < 1<<31 {
				steps = max(steps, int(n))
			}
		}
	}
	return steps
}

func number(d *pyobj.Dict, key string) (float64, bool) {
	v, ok := d.Get(key)
	if !ok {
		return 0, false
	}
	return scalar(v)
}

// scalar is a number, or the element of a tensor of one.
func scalar(v any) (float64, bool) {
	if f, err := pyobj.AsFloat(v); err == nil {
		return f, true
	}
	t, err := pyobj.AsTensor(v)
	if err != nil || t.Check() != nil || t.NumElements() != 1 {
		return 0, false
	}
	var value [1]float32
	if t.ReadFloat32(value[:]) != nil {
		return 0, false
	}
	return float64(value[0]), true
}
