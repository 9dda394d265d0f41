package optim

import (
	"slices"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// defaultKeys are a group's options in torch 2.14's order, the order in which
// torch.optim.Adam.__init__ names its defaults.
var defaultKeys = []string{
	"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach",
	"capturable", "differentiable", "fused", "decoupled_weight_decay",
}

// newEntries is a fresh group's line in the state dict: the group's own keys,
// then the defaults (torch.optim.Optimizer.add_param_group).
func newEntries(g *Group, decoupled bool) []pyobj.Entry {
	values := map[string]any{
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
	entries := make([]pyobj.Entry, 0, len(values)+1)
	add := func(key string) {
		if value, ok := values[key]; ok {
			entries = append(entries, pyobj.Entry{Key: key, Value: value})
			delete(values, key)
		}
	}
	for _, key := range g.OwnKeys {
		add(key)
	}
	for _, key := range defaultKeys {
		add(key)
	}
	return entries
}

// flag is True for an implementation that was asked for, None for one that was not.
func flag(on bool) any {
	if on {
		return true
	}
	return nil
}

// has reports whether key stands in the group's line of the state dict.
func (g *group) has(key string) bool {
	return slices.ContainsFunc(g.entries, func(e pyobj.Entry) bool { return e.Key == key })
}

// set replaces the value of key, or adds it at the end.
func (g *group) set(key string, value any) {
	for i := range g.entries {
		if g.entries[i].Key == key {
			g.entries[i].Value = value
			return
		}
	}
	g.entries = append(g.entries, pyobj.Entry{Key: key, Value: value})
}

// StateDict is the optimizer's state in the layout of torch's state_dict, what
// optimizer.pt holds:
//
//	{"state": {i: {"step", "exp_avg", "exp_avg_sq"[, "max_exp_avg_sq"]}},
//	 "param_groups": [{"lr", "betas", …, "params": [i, …]}]}
//
// Parameters are numbered through all groups. Step is a 0-d float32 tensor, the
// moments are float32 tensors of the parameter's shape; all are copies. A
// parameter that was never stepped has no state, so before the first step
// "state" is empty.
func (a *Adam) StateDict() *pyobj.Dict {
	states := pyobj.NewDict()
	groups := &pyobj.List{}
	index := 0
	for _, g := range a.groups {
		line := pyobj.NewDict()
		for _, e := range g.entries {
			line.Set(e.Key, e.Value)
		}
		numbers := &pyobj.List{}
		for _, p := range g.parameters {
			numbers.Items = append(numbers.Items, int64(index))
			if p.started() {
				states.Set(int64(index), p.stateDict())
			}
			index++
		}
		line.Set("params", numbers)
		groups.Items = append(groups.Items, line)
	}
	return pyobj.NewDict("state", states, "param_groups", groups)
}

func (p *parameter) stateDict() *pyobj.Dict {
	d := pyobj.NewDict(
		"step", tensor.FromFloat32([]float32{p.step}),
		"exp_avg", p.moment(p.expAvg),
		"exp_avg_sq", p.moment(p.expAvgSq),
	)
	if p.maxExpAvgSq != nil {
		d.Set("max_exp_avg_sq", p.moment(p.maxExpAvgSq))
	}
	for _, e := range p.extra {
		d.Set(e.Key, e.Value)
	}
	return d
}

func (p *parameter) moment(values []float32) *tensor.Tensor {
	return tensor.FromFloat32(values, slices.Clone(p.Shape)...)
}
