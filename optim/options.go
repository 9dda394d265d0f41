package optim

import (
	"fmt"
	"math"
	"slices"
)

// Implementation is which of torch's three loops is followed. They differ
// in the rounding of exp_avg_sq in the last elements of a parameter, and in the
// flags that the state dict shows.
//
// Fused contracts the products of the last len mod 8 elements in another order
// than the rest, as torch's fused kernel does on AVX2; torch builds and CPUs
// differ there, in the last place. SingleTensor and Foreach treat all elements
// alike; their arithmetic is the same. A torch that is built with MKL takes
// their square root from MKL, which is not always correctly rounded; this
// package's is.
type Implementation uint8

// The implementations, by the keyword that chooses them in torch. SingleTensor
// is what torch takes on a CPU unless told otherwise.
const (
	SingleTensor Implementation = iota
	Fused
	Foreach
)

func (i Implementation) String() string {
	switch i {
	case SingleTensor:
		return "single"
	case Fused:
		return "fused"
	case Foreach:
		return "foreach"
	}
	return fmt.Sprintf("Implementation(%d)", uint8(i))
}

// Options are the settings of one parameter group. An optimizer does not look
// at the settings that are another's.
type Options struct {
	LR             float64 // learning rate, ≥ 0
	WeightDecay    float64 // ≥ 0; decoupled for AdamW, L2 for the others
	Maximize       bool    // ascend instead of descend
	Implementation Implementation

	// Adam's and AdamW's.
	Beta1, Beta2 float64 // decay rates of the moments, in [0, 1)
	Eps          float64 // added to the denominator, ≥ 0
	AMSGrad      bool    // divide by the largest exp_avg_sq so far

	// SGD's.
	Momentum  float64 // ≥ 0; 0 for none
	Dampening float64 // what of the gradient is kept out of the momentum
	Nesterov  bool    // needs momentum, and no dampening
}

// DefaultOptions are torch's own defaults, but for WeightDecay, which is 0:
// torch.optim.AdamW's is 0.01.
func DefaultOptions() Options {
	return Options{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}
}

// bound is the half-open range from 0 that an option must lie in.
type bound struct {
	name  string
	value float64
	below float64
}

func (o *Options) validateBounds(bounds ...bound) error {
	bounds = append([]bound{{"lr", o.LR, math.Inf(1)}}, bounds...)
	bounds = append(bounds, bound{"weight_decay", o.WeightDecay, math.Inf(1)})
	for _, b := range bounds {
		if !(b.value >= 0 && b.value < b.below) {
			return fmt.Errorf("%s is %v, expected a number in [0, %v)", b.name, b.value, b.below)
		}
	}
	if o.Implementation > Foreach {
		return fmt.Errorf("%v is not one of single, fused, foreach", o.Implementation)
	}
	return nil
}

// validateAdam applies torch.optim.Adam's checks, and refuses NaN and infinity.
func (o *Options) validateAdam() error {
	return o.validateBounds(bound{"beta1", o.Beta1, 1}, bound{"beta2", o.Beta2, 1}, bound{"eps", o.Eps, math.Inf(1)})
}

// validateSGD applies torch.optim.SGD's checks, and refuses NaN and infinity.
func (o *Options) validateSGD() error {
	if err := o.validateBounds(bound{"momentum", o.Momentum, math.Inf(1)}); err != nil {
		return err
	}
	switch {
	case math.IsNaN(o.Dampening) || math.IsInf(o.Dampening, 0):
		return fmt.Errorf("dampening is %v, expected a finite number", o.Dampening)
	case o.Nesterov && (o.Momentum == 0 || o.Dampening != 0):
		return fmt.Errorf("nesterov with momentum %v and dampening %v, expected momentum above 0 and dampening 0", o.Momentum, o.Dampening)
	}
	return nil
}

// Param is one parameter of a model. Values and Grad are views that the model
// owns; they stay the same slices for the optimizer's life. The optimizer
// updates Values; it skips a parameter whose Grad is nil, as torch does.
type Param struct {
	Name   string
	Shape  []int
	Values []float32
	Grad   []float32
}

func (p *Param) validate() error {
	n := 1
	for _, d := range p.Shape {
		n *= d
	}
	if len(p.Values) != n {
		return fmt.Errorf("parameter %q of shape %v has %d values, expected %d", p.Name, p.Shape, len(p.Values), n)
	}
	if p.Grad != nil && len(p.Grad) != n {
		return fmt.Errorf("parameter %q has %d values and %d gradients", p.Name, n, len(p.Grad))
	}
	return nil
}

// Group is a parameter group: parameters that share options.
type Group struct {
	Options
	// OwnKeys names the options that the caller gave for this group and not for
	// all, spelled as torch's keys. torch writes these first in the state dict.
	OwnKeys []string
	Params  []*Param
}

// validate checks the group for an optimizer whose options have these keys.
func (g *Group) validate(options func(*Options) error, keys []string) error {
	if err := options(&g.Options); err != nil {
		return err
	}
	for i, key := range g.OwnKeys {
		if !slices.Contains(keys, key) || slices.Contains(g.OwnKeys[:i], key) {
			return fmt.Errorf("own key %q is unknown or named twice; known are %v", key, keys)
		}
	}
	for _, p := range g.Params {
		if err := p.validate(); err != nil {
			return err
		}
	}
	return nil
}
