package optim

import (
	"fmt"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// Adam is torch.optim.Adam or torch.optim.AdamW.
type Adam struct {
	base
	decoupled bool // made as AdamW, whose weight decay is always decoupled
	updater   updater
}

// NewAdam makes a torch.optim.Adam, whose weight decay is added to the gradient.
func NewAdam(groups []Group) (*Adam, error) { return newAdam(groups, false) }

// NewAdamW makes a torch.optim.AdamW, whose weight decay shrinks the parameter.
func NewAdamW(groups []Group) (*Adam, error) { return newAdam(groups, true) }

func newAdam(groups []Group, decoupled bool) (*Adam, error) {
	for i := range groups {
		if err := groups[i].validate((*Options).validateAdam, adamKeys); err != nil {
			return nil, fmt.Errorf("optimizer group %d: %w", i, err)
		}
	}
	b, err := newBase(groups, func(g *Group) *group {
		return &group{options: g.Options, decoupled: decoupled, entries: newEntries(g, adamKeys, adamValues(g, decoupled))}
	})
	if err != nil {
		return nil, err
	}
	a := &Adam{base: b, decoupled: decoupled}
	a.algorithm = a
	return a, nil
}

// Moments are exp_avg and exp_avg_sq of parameter name, to read; nil before
// its first step, and if it is not in the optimizer.
func (a *Adam) Moments(name string) (expAvg, expAvgSq []float32) {
	if p := a.find(name); p != nil {
		return p.expAvg, p.expAvgSq
	}
	return nil, nil
}

// Step makes one optimizer step: it updates the values of every parameter that
// has a gradient from that gradient, which it does not change.
func (a *Adam) Step() {
	for _, g := range a.groups {
		for _, p := range g.parameters {
			if p.Grad == nil {
				continue
			}
			if p.expAvg == nil {
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

// adamKeys are a group's options in torch 2.14's order, the order in which
// torch.optim.Adam.__init__ names its defaults.
var adamKeys = []string{
	"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach",
	"capturable", "differentiable", "fused", "decoupled_weight_decay",
}

func adamValues(g *Group, decoupled bool) map[string]any {
	return map[string]any{
		"lr":                     g.LR,
		"betas":                  &pyobj.Tuple{Items: []any{g.Beta1, g.Beta2}},
		"eps":                    g.Eps,
		"weight_decay":           g.WeightDecay,
		"amsgrad":                g.AMSGrad,
		"maximize":               g.Maximize,
		"foreach":                flag(g.Implementation == Foreach),
		"capturable":             false,
		"differentiable":         false,
		"fused":                  flag(g.Implementation == Fused),
		"decoupled_weight_decay": decoupled,
	}
}

// readOptions adds what Adam.__setstate__ does for files of older torch.
func (a *Adam) readOptions(r *groupReader, g *group) {
	r.refuseOther("betas", "momentum", "SGD", "Adam")
	o := &g.options
	o.LR = r.number("lr")
	o.Beta1, o.Beta2 = r.betas()
	o.Eps = r.number("eps")
	o.WeightDecay = r.number("weight_decay")
	o.AMSGrad = r.boolean(g, "amsgrad", false)
	o.Maximize = r.boolean(g, "maximize", false)
	foreach := r.boolean(g, "foreach", nil)
	r.boolean(g, "capturable", false)
	r.boolean(g, "differentiable", false)
	g.decoupled = r.boolean(g, "decoupled_weight_decay", false)
	fused := r.boolean(g, "fused", nil)
	o.Implementation = r.implementation(fused, foreach)
	if a.decoupled {
		g.decoupled = true
		g.set("decoupled_weight_decay", true)
	}
	r.check(o.validateAdam)
}

func (a *Adam) shapeKeys() (keys []string, missing string) {
	return []string{"exp_avg"}, "Adam's"
}

func (a *Adam) readState(r *stateReader, s *state, amsgrad bool) {
	s.step = r.step()
	s.expAvg = r.tensor("exp_avg")
	s.expAvgSq = r.tensor("exp_avg_sq")
	if amsgrad {
		s.maxExpAvgSq = r.tensor("max_exp_avg_sq")
	}
}

func (a *Adam) stateDict(p *parameter, of tensorOf) *pyobj.Dict {
	if p.expAvg == nil {
		return nil
	}
	d := pyobj.NewDict(
		"step", tensor.FromFloat32([]float32{p.step}),
		"exp_avg", p.tensor(of, p.expAvg),
		"exp_avg_sq", p.tensor(of, p.expAvgSq),
	)
	if p.maxExpAvgSq != nil {
		d.Set("max_exp_avg_sq", p.tensor(of, p.maxExpAvgSq))
	}
	return d
}
