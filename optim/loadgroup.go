package optim

import (
	"errors"
	"fmt"

	"rejoin/pyobj"
)

// groupReader reads a group's line of a state dict; the first error sticks.
type groupReader struct {
	line *pyobj.Dict
	path string
	err  error
}

// read keeps the line as it stands, without "params", and lets the algorithm
// read its options.
func (r *groupReader) read(a algorithm) loadedGroup {
	var g loadedGroup
	for _, e := range r.line.Entries() {
		if e.Key != "params" {
			g.entries = append(g.entries, e)
		}
	}
	g.numbers = r.numbers()
	g.names = r.names(len(g.numbers))
	a.readOptions(r, &g.group)
	if v, ok := r.line.Get("initial_lr"); ok {
		var err error
		g.initialLR, err = readScalar(v)
		r.fail("initial_lr", err)
	}
	return g
}

// refuseOther names another optimizer's group: one that lacks mine and has theirs.
func (r *groupReader) refuseOther(mine, theirs, otherName, ownName string) {
	_, has := r.line.Get(mine)
	if _, other := r.line.Get(theirs); !has && other && r.err == nil {
		r.err = stateError(r.path, fmt.Errorf("this is the state of %s, expected %s's; resume with the optimizer that the checkpoint was trained with", otherName, ownName))
	}
}

func (r *groupReader) check(validate func() error) {
	if r.err == nil {
		if err := validate(); err != nil {
			r.err = stateError(r.path, err)
		}
	}
}

// names reads the parameters' names, which torch from 2.6 on writes for an
// optimizer that was given named parameters; nil if there are none.
func (r *groupReader) names(want int) []string {
	v, ok := r.line.Get("param_names")
	if !ok || v == nil {
		return nil
	}
	items, err := pyobj.AsItems(v)
	if err == nil && len(items) != want {
		err = fmt.Errorf("it has %d names, the group has %d parameters", len(items), want)
	}
	if err != nil {
		r.fail("param_names", err)
		return nil
	}
	names := make([]string, len(items))
	for i, item := range items {
		name, ok := item.(string)
		if !ok {
			r.fail("param_names", fmt.Errorf("expected a str, found %s", pyobj.TypeName(item)))
		}
		names[i] = name
	}
	return names
}

func (r *groupReader) implementation(fused, foreach bool) Implementation {
	switch {
	case fused && foreach:
		r.fail("fused", errors.New(`it and "foreach" cannot both be true`))
	case fused:
		return Fused
	case foreach:
		return Foreach
	}
	return SingleTensor
}

func (r *groupReader) fail(key string, err error) {
	if err != nil && r.err == nil {
		r.err = stateError(fmt.Sprintf("%s[%q]", r.path, key), err)
	}
}

func (r *groupReader) value(key string) (any, bool) {
	v, ok := r.line.Get(key)
	if !ok {
		r.fail(key, fmt.Errorf("is missing; the group has %s", keyList(r.line)))
	}
	return v, ok
}

func (r *groupReader) number(key string) float64 {
	v, ok := r.value(key)
	if !ok {
		return 0
	}
	f, err := readScalar(v)
	r.fail(key, err)
	return f
}

func (r *groupReader) betas() (beta1, beta2 float64) {
	v, ok := r.value("betas")
	if !ok {
		return 0, 0
	}
	items, err := pyobj.AsItems(v)
	if err == nil && len(items) != 2 {
		err = fmt.Errorf("expected two numbers, found %d", len(items))
	}
	if err != nil {
		r.fail("betas", err)
		return 0, 0
	}
	beta1, err = readScalar(items[0])
	r.fail("betas", err)
	beta2, err = readScalar(items[1])
	r.fail("betas", err)
	return beta1, beta2
}

// boolean reads a flag, where None is false. A missing one gets torch's default
// in the group's entries.
func (r *groupReader) boolean(g *group, key string, missing any) bool {
	v, ok := r.line.Get(key)
	if !ok {
		g.set(key, missing)
		v = missing
	}
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	}
	n, err := pyobj.AsInt(v)
	r.fail(key, err)
	return n != 0
}

func (r *groupReader) numbers() []int64 {
	v, ok := r.value("params")
	if !ok {
		return nil
	}
	items, err := pyobj.AsItems(v)
	if err != nil {
		r.fail("params", err)
		return nil
	}
	numbers := make([]int64, len(items))
	for i, item := range items {
		n, err := pyobj.AsInt(item)
		if err != nil {
			r.fail("params", err)
			return nil
		}
		numbers[i] = n
	}
	return numbers
}
