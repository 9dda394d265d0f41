package optim

import (
	"errors"
	"fmt"
	"strings"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// StateError says that a state dict, or a part of it, is not what torch's
// optimizer or scheduler writes. Nothing was loaded.
type StateError struct {
	// Path is where in the state dict, such as `param_groups[0]["lr"]`; "" for
	// the whole.
	Path string
	Err  error
}

func (e *StateError) Error() string {
	if e.Path == "" {
		return e.Err.Error()
	}
	return e.Path + ": " + e.Err.Error()
}

func (e *StateError) Unwrap() error { return e.Err }

func stateError(path string, err error) error { return &StateError{Path: path, Err: err} }

var errMissing = errors.New("is missing")

// loadedGroup is a group of a state dict, checked but not yet in use.
type loadedGroup struct {
	group
	numbers []int64
	states  []state
}

// LoadStateDict replaces the optimizer's state and options by those of a state
// dict, as torch's load_state_dict does: groups and parameters are matched by
// their order, and every option, the learning rate included, becomes the
// file's. Unlike torch, it also compares shapes.
//
// Moments are converted to float32. Files of older torch load: a step that is
// an int, and group options that did not exist yet. A parameter without state
// starts afresh. Keys that are not known are kept and written back.
//
// The error is a [*LayoutError] if groups or shapes do not fit the model, else
// a [*StateError]; then nothing has changed. Nothing of d is kept but copies.
func (a *Adam) LoadStateDict(d *pyobj.Dict) error {
	groups, err := a.readGroups(d)
	if err != nil {
		return err
	}
	states, err := readDict(d, "state")
	if err != nil {
		return err
	}
	if err := a.checkLayout(groups, states); err != nil {
		return err
	}
	for i := range groups {
		if err := groups[i].readStates(states); err != nil {
			return err
		}
	}
	var c pyobj.Cloner // the file's tensors may be views of a mapping
	for i, g := range a.groups {
		loaded := &groups[i]
		loaded.detach(&c)
		g.options, g.decoupled, g.initialLR, g.entries = loaded.options, loaded.decoupled, loaded.initialLR, loaded.entries
		for j, p := range g.parameters {
			p.state = loaded.states[j]
		}
	}
	return nil
}

// detach copies the values that are kept as the file had them.
func (g *loadedGroup) detach(c *pyobj.Cloner) {
	for i := range g.entries {
		g.entries[i].Value = c.Clone(g.entries[i].Value)
	}
	for _, s := range g.states {
		for i := range s.extra {
			s.extra[i].Value = c.Clone(s.extra[i].Value)
		}
	}
}

func readDict(d *pyobj.Dict, key string) (*pyobj.Dict, error) {
	v, ok := d.Get(key)
	if !ok {
		return nil, stateError("", fmt.Errorf("not an optimizer's state dict: key %q is missing; it has %s", key, keyList(d)))
	}
	sub, err := pyobj.AsDict(v)
	if err != nil {
		return nil, stateError(key, err)
	}
	return sub, nil
}

// keyList names the keys of d, some at most.
func keyList(d *pyobj.Dict) string {
	const most = 12
	var names []string
	for i, e := range d.Entries() {
		if i == most {
			names = append(names, fmt.Sprintf("… %d more", d.Len()-most))
			break
		}
		names = append(names, fmt.Sprintf("%#v", e.Key))
	}
	if names == nil {
		return "no keys"
	}
	return strings.Join(names, ", ")
}

func (a *Adam) readGroups(d *pyobj.Dict) ([]loadedGroup, error) {
	v, ok := d.Get("param_groups")
	if !ok {
		return nil, stateError("", fmt.Errorf("not an optimizer's state dict: key %q is missing; it has %s", "param_groups", keyList(d)))
	}
	items, err := pyobj.AsItems(v)
	if err != nil {
		return nil, stateError("param_groups", err)
	}
	groups := make([]loadedGroup, len(items))
	seen := map[int64]bool{}
	for i, item := range items {
		path := fmt.Sprintf("param_groups[%d]", i)
		line, err := pyobj.AsDict(item)
		if err != nil {
			return nil, stateError(path, err)
		}
		r := groupReader{line: line, path: path}
		groups[i] = r.read(a.decoupled)
		if r.err != nil {
			return nil, r.err
		}
		for _, n := range groups[i].numbers {
			if seen[n] {
				return nil, stateError(path+`["params"]`, fmt.Errorf("parameter %d is listed twice", n))
			}
			seen[n] = true
		}
	}
	return groups, nil
}

// checkLayout compares groups, counts and shapes, and that no state is left over.
func (a *Adam) checkLayout(groups []loadedGroup, states *pyobj.Dict) error {
	listed := map[int64]bool{}
	file := make(Layout, len(groups))
	for i := range groups {
		for _, n := range groups[i].numbers {
			listed[n] = true
			slot := Slot{Name: fmt.Sprint(n)}
			if v, ok := states.Get(n); ok {
				shape, err := stateShape(n, v)
				if err != nil {
					return err
				}
				slot.Shape = shape
			}
			file[i] = append(file[i], slot)
		}
	}
	if model := a.layout(); !file.fits(model) {
		return &LayoutError{File: file, Model: model}
	}
	for _, e := range states.Entries() {
		if n, err := pyobj.AsInt(e.Key); err != nil || !listed[n] {
			return stateError("state", fmt.Errorf("it has an entry %#v that no parameter group lists", e.Key))
		}
	}
	for i := range groups {
		groups[i].parameters = a.groups[i].parameters
	}
	return nil
}

func stateShape(n int64, v any) ([]int, error) {
	entry, err := pyobj.AsDict(v)
	if err != nil {
		return nil, stateError(fmt.Sprintf("state[%d]", n), err)
	}
	if entry.Len() == 0 {
		return nil, nil // torch takes it for a parameter that was never stepped
	}
	t, err := momentTensor(n, entry, "exp_avg")
	if err != nil {
		return nil, err
	}
	return append([]int{}, t.Shape...), nil
}

func momentTensor(n int64, entry *pyobj.Dict, key string) (*tensor.Tensor, error) {
	path := fmt.Sprintf("state[%d][%q]", n, key)
	v, ok := entry.Get(key)
	if !ok {
		return nil, stateError(path, fmt.Errorf("is missing; the state has %s, which is not Adam's", keyList(entry)))
	}
	t, err := pyobj.AsTensor(v)
	if err != nil {
		return nil, stateError(path, err)
	}
	if err := t.Check(); err != nil {
		return nil, stateError(path, err)
	}
	return t, nil
}

// readStates reads the state of every parameter of the group.
func (g *loadedGroup) readStates(states *pyobj.Dict) error {
	g.states = make([]state, len(g.numbers))
	for j, n := range g.numbers {
		v, ok := states.Get(n)
		if !ok {
			continue
		}
		entry, err := pyobj.AsDict(v)
		if err != nil {
			return stateError(fmt.Sprintf("state[%d]", n), err)
		}
		if entry.Len() == 0 {
			continue
		}
		if err := g.states[j].read(n, entry, g.parameters[j].Param, g.options.AMSGrad); err != nil {
			return err
		}
	}
	return nil
}

func (s *state) read(n int64, entry *pyobj.Dict, p *Param, amsgrad bool) error {
	step, ok := entry.Get("step")
	if !ok {
		return stateError(fmt.Sprintf("state[%d][\"step\"]", n), errMissing)
	}
	var err error
	if s.step, err = readStep(step); err != nil {
		return stateError(fmt.Sprintf("state[%d][\"step\"]", n), err)
	}
	moments := map[string]*[]float32{"exp_avg": &s.expAvg, "exp_avg_sq": &s.expAvgSq}
	if amsgrad {
		moments["max_exp_avg_sq"] = &s.maxExpAvgSq
	}
	for _, key := range []string{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"} {
		dst, ok := moments[key]
		if !ok {
			continue
		}
		if *dst, err = readMoment(n, entry, key, p); err != nil {
			return err
		}
	}
	for _, e := range entry.Entries() {
		key, _ := e.Key.(string)
		if _, known := moments[key]; !known && key != "step" {
			s.extra = append(s.extra, e)
		}
	}
	return nil
}

func readMoment(n int64, entry *pyobj.Dict, key string, p *Param) ([]float32, error) {
	t, err := momentTensor(n, entry, key)
	if err != nil {
		return nil, err
	}
	path := fmt.Sprintf("state[%d][%q]", n, key)
	if !t.SameShape(p.Shape) {
		return nil, stateError(path, fmt.Errorf("has shape %v, expected %v of parameter %q", t.Shape, p.Shape, p.Name))
	}
	values := newMoment(len(p.Values))
	if err := t.ReadFloat32(values); err != nil {
		return nil, stateError(path, err)
	}
	return values, nil
}

// readStep reads a step count: a tensor of one element, or a number as before
// torch 1.12.
func readStep(v any) (float32, error) {
	f, err := readScalar(v)
	if err != nil {
		return 0, err
	}
	if step := float32(f); step >= 0 && step <= 1<<53 {
		return step, nil
	}
	return 0, fmt.Errorf("%v is not a step count", f)
}

// readScalar reads a number, or a tensor of one element: an option that was
// given to torch as a tensor is saved as one.
func readScalar(v any) (float64, error) {
	t, err := pyobj.AsTensor(v)
	if err != nil {
		return pyobj.AsFloat(v)
	}
	if err := t.Check(); err != nil {
		return 0, err
	}
	if n := t.NumElements(); n != 1 {
		return 0, fmt.Errorf("expected one element, found %v", t)
	}
	var value [1]float32
	if err := t.ReadFloat32(value[:]); err != nil {
		return 0, err
	}
	return float64(value[0]), nil
}
