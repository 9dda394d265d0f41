package inspect

import (
	"maps"
	"slices"

	"rejoin/ckpt/source"
	"rejoin/ckpt/tree"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// optimizersOf finds optimizers' state_dicts at the top of a file or one level
// below, where training scripts keep them.
func optimizersOf(p *source.Part) []Optimizer {
	if p.Checkpoint == nil {
		return nil
	}
	top, ok := p.Checkpoint.Object().(*pyobj.Dict)
	if !ok {
		return nil
	}
	if o, ok := optimizerOf(top); ok {
		o.File = p.Name
		return []Optimizer{o}
	}
	var found []Optimizer
	for _, e := range top.Entries() {
		d, isDict := e.Value.(*pyobj.Dict)
		key, isName := e.Key.(string)
		if !isDict || !isName {
			continue
		}
		if o, ok := optimizerOf(d); ok {
			o.File, o.Key = p.Name, key
			found = append(found, o)
		}
	}
	return found
}

func optimizerOf(d *pyobj.Dict) (Optimizer, bool) {
	s, _ := d.Get("state")
	g, _ := d.Get("param_groups")
	state, ok1 := s.(*pyobj.Dict)
	groups, ok2 := g.(*pyobj.List)
	if !ok1 || !ok2 {
		return Optimizer{}, false
	}
	o := Optimizer{Groups: []Group{}, Moments: []string{}, Steps: []float64{}, Params: state.Len()}
	for _, item := range groups.Items {
		if group, ok := item.(*pyobj.Dict); ok {
			o.Groups = append(o.Groups, groupOf(group))
		}
	}
	o.readState(state)
	o.Kind = kindOf(o.Moments, groups)
	return o, true
}

func groupOf(d *pyobj.Dict) Group {
	g := Group{Options: map[string]string{}}
	for _, e := range d.Entries() {
		key, ok := e.Key.(string)
		if !ok {
			continue
		}
		if key != "params" {
			g.Options[key] = tree.Repr(e.Value)
			continue
		}
		if items, err := pyobj.AsItems(e.Value); err == nil {
			g.Params = len(items)
		}
	}
	return g
}

// readState collects the step counts and the names of the moments.
func (o *Optimizer) readState(state *pyobj.Dict) {
	moments, steps := map[string]bool{}, map[float64]bool{}
	for _, e := range state.Entries() {
		entry, ok := e.Value.(*pyobj.Dict)
		if !ok {
			continue
		}
		for _, item := range entry.Entries() {
			key, ok := item.Key.(string)
			switch {
			case ok && key == "step":
				if n, ok := stepOf(item.Value); ok {
					steps[n] = true
				}
			case ok && item.Value != nil:
				moments[key] = true
			}
		}
	}
	o.Moments = append(o.Moments, slices.Sorted(maps.Keys(moments))...)
	o.Steps = append(o.Steps, slices.Sorted(maps.Keys(steps))...)
}

// stepOf reads a step count in any of the forms that torch has given it: an
// int, or a 0-d tensor of any real dtype.
func stepOf(v any) (float64, bool) {
	if n, err := pyobj.AsFloat(v); err == nil {
		return n, true
	}
	t, err := pyobj.AsTensor(v)
	if err != nil || t.NumElements() != 1 {
		return 0, false
	}
	decode, ok := tensor.Float64Decoder(t.DType)
	data, err := t.Bytes()
	if !ok || err != nil {
		return 0, false
	}
	return decode(data), true
}

// kindOf guesses the optimizer from what it keeps. Adam and AdamW keep the same;
// torch since 2.7 notes which one it was as decoupled_weight_decay.
func kindOf(moments []string, groups *pyobj.List) string {
	has := func(name string) bool { return slices.Contains(moments, name) }
	switch {
	case has("exp_avg") && has("exp_avg_sq"):
		kind := "Adam or AdamW"
		if len(groups.Items) > 0 {
			if d, ok := groups.Items[0].(*pyobj.Dict); ok {
				switch decoupled, _ := d.Get("decoupled_weight_decay"); decoupled {
				case true:
					kind = "AdamW"
				case false:
					kind = "Adam"
				}
			}
		}
		if has("max_exp_avg_sq") {
			kind += " with amsgrad"
		}
		return kind
	case has("momentum_buffer"):
		return "SGD with momentum"
	case has("square_avg"):
		return "RMSprop"
	case has("sum"):
		return "Adagrad"
	case len(moments) == 0:
		return "no state yet, or an optimizer without one"
	}
	return "unknown"
}

// isOpaque reports whether v is an object that is described and never run.
func isOpaque(v any) bool {
	switch v.(type) {
	case *tree.Opaque, *pyobj.Object:
		return true
	}
	return false
}
