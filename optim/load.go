package optim

import (
	"errors"
	"fmt"
	"strings"

	"rejoin/pyobj"
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
	names   []string // nil if the file does not name parameters
	states  []state
}

// LoadStateDict replaces the optimizer's state and options by those of a state
// dict, as torch's load_state_dict does: every option, the learning rate
// included, becomes the file's.
//
// Unlike torch, which matches parameters by their order alone, it compares
// shapes, and names if the file has "param_names" (torch from 2.6 on). If the
// file's groups hold the same parameters divided or ordered otherwise, the
// optimizer takes the file's groups over, which [base.Notices] then tells: by
// name, or where there are no names by shape, if no two parameters share one.
// State never goes to a parameter on a guess.
//
// Tensors are converted to float32. Files of older torch load: a step that is
// an int, and group options that did not exist yet. A parameter without state
// starts afresh. Keys that are not known are kept and written back.
//
// The error is a [*LayoutError] if the parameters do not fit the model's, else
// a [*StateError]; then nothing has changed. Nothing of d is kept but copies.
func (b *base) LoadStateDict(d *pyobj.Dict) error {
	groups, err := b.readGroups(d)
	if err != nil {
		return err
	}
	states, err := readDict(d, "state")
	if err != nil {
		return err
	}
	var notices []string
	if notices, err = b.match(groups, states); err != nil {
		return err
	}
	var inexact inexactSteps
	for i := range groups {
		if err := groups[i].readStates(b.algorithm, states, &inexact); err != nil {
			return err
		}
	}
	var c pyobj.Cloner // the file's tensors may be views of a mapping
	b.groups = b.groups[:0:0]
	for i := range groups {
		loaded := &groups[i]
		loaded.detach(&c)
		for j, p := range loaded.parameters {
			p.state = loaded.states[j]
		}
		b.groups = append(b.groups, &loaded.group)
	}
	b.notices = append(notices, inexact.notices()...)
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

// keyName spells a dict's key.
func keyName(key any) string {
	switch key := key.(type) {
	case string, int64, bool, float64:
		return fmt.Sprintf("%#v", key)
	}
	return "a " + pyobj.TypeName(key)
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
		names = append(names, keyName(e.Key))
	}
	if names == nil {
		return "no keys"
	}
	return strings.Join(names, ", ")
}

func (b *base) readGroups(d *pyobj.Dict) ([]loadedGroup, error) {
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
		groups[i] = r.read(b.algorithm)
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

// readStates reads the state of every parameter of the group.
func (g *loadedGroup) readStates(a algorithm, states *pyobj.Dict, inexact *inexactSteps) error {
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
		r := stateReader{number: n, entry: entry, param: g.parameters[j].Param, known: map[any]bool{}, inexact: inexact}
		s := &g.states[j]
		s.listed = true
		a.readState(&r, s, g.options.AMSGrad)
		if r.err != nil {
			return r.err
		}
		for _, e := range entry.Entries() {
			if !r.known[e.Key] {
				s.extra = append(s.extra, e)
			}
		}
	}
	return nil
}
