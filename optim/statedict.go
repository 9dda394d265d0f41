package optim

import (
	"slices"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// newEntries is a fresh group's line in the state dict: the group's own keys,
// then the others in the order of keys (torch.optim.Optimizer.add_param_group).
func newEntries(g *Group, keys []string, values map[string]any) []pyobj.Entry {
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
	for _, key := range keys {
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

// tensor is one of the parameter's buffers, in its shape.
func (p *parameter) tensor(of tensorOf, values []float32) *tensor.Tensor {
	return of(values, slices.Clone(p.Shape)...)
}
