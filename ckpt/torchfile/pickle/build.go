package pickle

import (
	"fmt"

	"rejoin/pyobj"
)

// node converts a recorded call: to a value of a known class, or to a description.
func (c *converter) node(n *node, at *place) (any, error) {
	if forbidden(n.class.Global) {
		return nil, &UnsupportedGlobalError{Global: n.class.Global, KeyPath: at.String(), Forbidden: true}
	}
	if value, ok, err := c.container(n, at); ok || err != nil {
		return value, err
	}
	if c.making[n] {
		return nil, &ValueError{at.String(), fmt.Errorf("an object of class %v is made of itself", n.class)}
	}
	if !c.known(n.class.Global) {
		if !c.o.Describe {
			return nil, &UnsupportedGlobalError{Global: n.class.Global, KeyPath: at.String()}
		}
		return c.describe(n, at)
	}
	c.making[n] = true
	defer delete(c.making, n)
	call, err := c.call(n, at)
	if err != nil {
		return nil, err
	}
	value, ok, err := c.build(call)
	if err != nil {
		return nil, &ValueError{at.String(), err}
	}
	if !ok {
		return c.unknown(n, call, at)
	}
	c.done[n] = value
	return value, nil
}

// known reports whether a class is Python's, numpy's or the caller's plain data,
// for all that can be said before its arguments are looked at.
func (c *converter) known(g pyobj.Global) bool {
	if knownGlobals[g] || c.o.Global == nil {
		return knownGlobals[g]
	}
	_, known := c.o.Global(g)
	return known
}

// call converts a node's parts.
func (c *converter) call(n *node, at *place) (*Call, error) {
	call := &Call{Func: n.class.Global, New: !n.called, HasState: n.built, KeyPath: at.String}
	var err error
	if call.Args, err = c.values(n.args, at); err != nil {
		return nil, err
	}
	if call.Items, err = c.values(n.items, at); err != nil {
		return nil, err
	}
	if len(n.pairs) > 0 {
		call.Pairs = &pyobj.Dict{}
		if err := c.entries(call.Pairs, n.pairs, at); err != nil {
			return nil, err
		}
	}
	call.State, err = c.value(n.state, at)
	return call, err
}

// build asks the caller first, then knows Python's and numpy's own data.
func (c *converter) build(call *Call) (any, bool, error) {
	if c.o.Build != nil {
		if value, ok, err := c.o.Build(call); ok || err != nil {
			return value, ok, err
		}
	}
	if value, ok, err := c.builtin(call); ok || err != nil {
		return value, ok, err
	}
	return c.numpy(call)
}

// unknown describes a call that no one could build, or refuses it.
func (c *converter) unknown(n *node, call *Call, at *place) (any, error) {
	if !c.o.Describe {
		return nil, &UnsupportedGlobalError{Global: call.Func, KeyPath: at.String()}
	}
	object := &pyobj.Object{Class: call.Func, Called: n.called, State: call.State, Items: call.Items, Pairs: call.Pairs}
	if len(call.Args) > 0 || n.called {
		object.Args = &pyobj.Tuple{Items: call.Args}
	}
	c.done[n] = object
	return object, nil
}

// describe makes the object first and fills it, so that it may contain itself.
func (c *converter) describe(n *node, at *place) (any, error) {
	object := &pyobj.Object{Class: n.class.Global, Called: n.called}
	c.done[n] = object
	call, err := c.call(n, at)
	if err != nil {
		return nil, err
	}
	if len(call.Args) > 0 || n.called {
		object.Args = &pyobj.Tuple{Items: call.Args}
	}
	object.State, object.Items, object.Pairs = call.State, call.Items, call.Pairs
	return object, nil
}

// container converts the dict types and sets, which may contain themselves.
func (c *converter) container(n *node, at *place) (any, bool, error) {
	dictKind, isDict := dictClasses[n.class.Global]
	switch {
	case isDict:
		dict := &pyobj.Dict{Kind: dictKind}
		c.done[n] = dict
		return dict, true, c.dict(dict, n, at)
	case setClasses[n.class.Global]:
		set := &pyobj.Set{Frozen: n.frozen || n.class.Name == "frozenset"}
		c.done[n] = set
		return set, true, c.set(set, n, at)
	}
	return nil, false, nil
}

// dict fills a dict from what its class was called with, and then its items.
func (c *converter) dict(dict *pyobj.Dict, n *node, at *place) error {
	args, err := c.values(n.args, at)
	if err != nil {
		return err
	}
	if dict.Kind == pyobj.DefaultDict && len(args) > 0 {
		dict.Factory, args = args[0], args[1:]
	}
	if len(args) > 1 {
		return &ValueError{at.String(), fmt.Errorf("%v is called with %d arguments", n.class, len(n.args))}
	}
	if len(args) == 1 {
		if err := c.fill(dict, args[0]); err != nil {
			return &ValueError{at.String(), err}
		}
	}
	if err := c.entries(dict, n.pairs, at); err != nil {
		return err
	}
	dict.State, err = c.value(n.state, at.at("__dict__"))
	return err
}

// fill adds the items of a dict, or of a list of pairs as Python 2 wrote it.
func (c *converter) fill(dict *pyobj.Dict, from any) error {
	if d, ok := from.(*pyobj.Dict); ok {
		for _, e := range d.Entries() {
			dict.Set(e.Key, e.Value)
		}
		return c.charge(64 * d.Len())
	}
	items, err := pyobj.AsItems(from)
	if err != nil {
		return fmt.Errorf("a dict is made of %s", pyobj.TypeName(from))
	}
	for _, item := range items {
		pair, err := pyobj.AsItems(item)
		if err != nil || len(pair) != 2 {
			return fmt.Errorf("a dict is made of a list that holds %s, expected pairs", pyobj.TypeName(item))
		}
		dict.Set(pair[0], pair[1])
	}
	return c.charge(64 * len(items))
}

// set fills a set from its internal items or its class's only argument.
func (c *converter) set(set *pyobj.Set, n *node, at *place) error {
	items, err := c.values(n.args, at)
	if err != nil {
		return err
	}
	if !n.frozen && len(items) > 0 {
		if len(items) != 1 {
			return &ValueError{at.String(), fmt.Errorf("a set is made of %d arguments", len(items))}
		}
		if items, err = pyobj.AsItems(items[0]); err != nil {
			return &ValueError{at.String(), fmt.Errorf("a set is made of: %w", err)}
		}
	}
	if err := c.charge(16 * len(items)); err != nil {
		return err
	}
	added, err := c.values(n.items, at)
	set.Items = append(append([]any{}, items...), added...)
	return err
}
