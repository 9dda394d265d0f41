package optim

import (
	"fmt"
	"slices"

	"rejoin/kernel"
	"rejoin/pyobj"
)

// SGD is torch.optim.SGD, with momentum, dampening and Nesterov's form.
type SGD struct {
	base
	grad []float32 // scratch
}

// NewSGD makes a torch.optim.SGD.
func NewSGD(groups []Group) (*SGD, error) {
	for i := range groups {
		if err := groups[i].validate((*Options).validateSGD, sgdKeys); err != nil {
			return nil, fmt.Errorf("optimizer group %d: %w", i, err)
		}
	}
	b, err := newBase(groups, func(g *Group) *group {
		return &group{options: g.Options, entries: newEntries(g, sgdKeys, sgdValues(g))}
	})
	if err != nil {
		return nil, err
	}
	s := &SGD{base: b}
	s.algorithm = s
	return s, nil
}

// Momentum is momentum_buffer of parameter name, to read; nil before its first
// step with momentum, and if it is not in the optimizer.
func (s *SGD) Momentum(name string) []float32 {
	if p := s.find(name); p != nil {
		return p.momentum
	}
	return nil
}

// Step makes one optimizer step: it updates the values of every parameter that
// has a gradient from that gradient, which it does not change.
func (s *SGD) Step() {
	for _, g := range s.groups {
		for _, p := range g.parameters {
			if p.Grad != nil {
				s.update(p, &g.options)
			}
		}
	}
}

// update is torch 2.14's step (torch/optim/sgd.py, _single_tensor_sgd; foreach
// is the same arithmetic), each line rounded where it ends but for the fused
// multiply-adds:
//
//	g = -g                        if maximize
//	g = fma(wd, p, g)             if weight_decay
//	b = g                         the first time
//	b = fma(1-dampening, g, m*b)  later
//	g = fma(m, b, g)              if nesterov, else g = b
//	p = fma(-lr, g, p)
//
// torch's fused kernel (aten/src/ATen/native/cpu/FusedSGDKernel.cpp) contracts
// the buffer's other product in the last len mod 8 elements, where it runs on
// AVX2: b = fma(m, b, (1-dampening)*g).
func (s *SGD) update(p *parameter, o *Options) {
	grad := s.gradient(p, o)
	if o.Momentum != 0 {
		s.accumulate(p, grad, o)
		if o.Nesterov {
			kernel.Axpy(grad, float32(o.Momentum), p.momentum)
		} else {
			grad = p.momentum
		}
	}
	kernel.Axpy(p.Values, float32(-o.LR), grad)
}

// gradient is the gradient to descend, in scratch memory.
func (s *SGD) gradient(p *parameter, o *Options) []float32 {
	if len(s.grad) < len(p.Values) {
		s.grad = make([]float32, len(p.Values))
	}
	grad := s.grad[:len(p.Values)]
	copy(grad, p.Grad)
	if o.Maximize {
		for i := range grad {
			grad[i] = -grad[i]
		}
	}
	if o.WeightDecay != 0 {
		kernel.Axpy(grad, float32(o.WeightDecay), p.Values)
	}
	return grad
}

// accumulate adds the gradient to the momentum buffer.
func (s *SGD) accumulate(p *parameter, grad []float32, o *Options) {
	p.listed = true
	if p.momentum == nil {
		p.momentum = newMoment(len(grad))
		copy(p.momentum, grad)
		return
	}
	body := len(grad)
	if o.Implementation == Fused {
		body -= body % vector
		var tail [vector]float32
		scaled := tail[:copy(tail[:], grad[body:])]
		kernel.Scale(scaled, float32(1-o.Dampening))
		kernel.Axpy(scaled, float32(o.Momentum), p.momentum[body:])
		copy(p.momentum[body:], scaled)
	}
	kernel.Scale(p.momentum[:body], float32(o.Momentum))
	kernel.Axpy(p.momentum[:body], float32(1-o.Dampening), grad[:body])
}

// sgdKeys are a group's options in torch 2.14's order.
var sgdKeys = []string{
	"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "foreach", "differentiable", "fused",
}

func sgdValues(g *Group) map[string]any {
	values := map[string]any{
		"lr":             g.LR,
		"momentum":       number(g.Momentum),
		"dampening":      number(g.Dampening),
		"weight_decay":   number(g.WeightDecay),
		"nesterov":       g.Nesterov,
		"maximize":       g.Maximize,
		"foreach":        flag(g.Implementation == Foreach),
		"differentiable": false,
		"fused":          flag(g.Implementation == Fused),
	}
	if slices.Contains(g.OwnKeys, "weight_decay") {
		values["weight_decay"] = g.WeightDecay // as the Trainer gives it
	}
	return values
}

// number is an option as torch holds its default: the int 0.
func number(v float64) any {
	if v == 0 {
		return int64(0)
	}
	return v
}

// readOptions adds what SGD.__setstate__ does for files of older torch.
func (s *SGD) readOptions(r *groupReader, g *group) {
	r.refuseOther("momentum", "betas", "Adam", "SGD")
	o := &g.options
	o.LR = r.number("lr")
	o.Momentum = r.number("momentum")
	o.Dampening = r.number("dampening")
	o.WeightDecay = r.number("weight_decay")
	o.Nesterov = r.boolean(g, "nesterov", false)
	o.Maximize = r.boolean(g, "maximize", false)
	foreach := r.boolean(g, "foreach", nil)
	r.boolean(g, "differentiable", false)
	fused := r.boolean(g, "fused", false)
	o.Implementation = r.implementation(fused, foreach)
	r.check(o.validateSGD)
}

func (s *SGD) shapeKeys() (keys []string, missing string) {
	return []string{"momentum_buffer"}, "SGD's"
}

func (s *SGD) readState(r *stateReader, st *state, _ bool) {
	if v, ok := r.entry.Get("momentum_buffer"); ok {
		r.known["momentum_buffer"] = true
		if v == nil {
			return // no momentum yet, as torch before 2.0 wrote it
		}
	}
	st.momentum = r.tensor("momentum_buffer")
}

func (s *SGD) stateDict(p *parameter, of tensorOf) *pyobj.Dict {
	switch {
	case p.momentum != nil:
		return pyobj.NewDict("momentum_buffer", p.tensor(of, p.momentum))
	case p.listed:
		return pyobj.NewDict("momentum_buffer", nil)
	}
	return nil
}
