package pickle

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/nlpodyssey/gopickle/types"

	"rejoin/pyobj"
)

// class is what GLOBAL pushes: a name. Calling it records the call.
type class struct{ pyobj.Global }

// node is a recorded call, with what the opcodes added to its result.
type node struct {
	class  *class
	args   []any
	called bool // REDUCE, not NEWOBJ
	state  any
	built  bool
	items  []any
	pairs  []types.DictEntry
	frozen bool // an internal frozenset: args are its items
}

// persistent is what a persistent id stands for.
type persistent struct{ id any }

var errTwoStates = errors.New("an object is given two states")

// Call records REDUCE.
func (c *class) Call(args ...any) (any, error) { return &node{class: c, args: args, called: true}, nil }

// PyNew records NEWOBJ.
func (c *class) PyNew(args ...any) (any, error) { return &node{class: c, args: args}, nil }

// Append records APPEND and APPENDS.
func (n *node) Append(item any) { n.items = append(n.items, item) }

// Add records ADDITEMS.
func (n *node) Add(item any) { n.items = append(n.items, item) }

// Set records SETITEM and SETITEMS.
func (n *node) Set(key, value any) {
	n.pairs = append(n.pairs, types.DictEntry{Key: key, Value: value})
}

// PySetState records BUILD.
func (n *node) PySetState(state any) error {
	if n.built {
		return errTwoStates
	}
	n.state, n.built = state, true
	return nil
}

var (
	_ types.Callable        = (*class)(nil)
	_ types.PyNewable       = (*class)(nil)
	_ types.ListAppender    = (*node)(nil)
	_ types.SetAdder        = (*node)(nil)
	_ types.DictSetter      = (*node)(nil)
	_ types.PyStateSettable = (*node)(nil)
)

// hooks connect the interpreter to a program's table of classes.
type hooks struct{ classes []*class }

func newHooks(globals []pyobj.Global) *hooks {
	h := &hooks{make([]*class, len(globals))}
	for i, g := range globals {
		h.classes[i] = &class{g}
	}
	return h
}

// findClass resolves a number that the scan wrote.
func (h *hooks) findClass(_, number string) (any, error) {
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 || i >= len(h.classes) {
		return nil, fmt.Errorf("class number %q is not in the table of %d", number, len(h.classes))
	}
	return h.classes[i], nil
}

// persistentLoad keeps the id for later, and does the scan's internal operations.
func (h *hooks) persistentLoad(id any) (any, error) {
	tuple, ok := id.(*types.Tuple)
	if !ok {
		return &persistent{id}, nil
	}
	if tuple.Len() == 2 {
		if c, ok := tuple.Get(1).(*class); ok {
			switch c.Global {
			case frozenSetMark:
				return frozenSet(tuple.Get(0))
			case newObjExMark:
				return newObjEx(tuple.Get(0))
			}
		}
	}
	// torch's legacy files give ('module', class, source file, source) for a class.
	if tuple.Len() >= 2 && tuple.Get(0) == any("module") {
		if c, ok := tuple.Get(1).(*class); ok {
			return c, nil
		}
	}
	return &persistent{id}, nil
}

func frozenSet(items any) (any, error) {
	list, ok := items.(*types.List)
	if !ok {
		return nil, fmt.Errorf("a frozenset is made of %T, expected a list", items)
	}
	return &node{class: &class{setClass}, args: *list, frozen: true}, nil
}

func newObjEx(args any) (any, error) {
	tuple, ok := args.(*types.Tuple)
	if !ok {
		return nil, fmt.Errorf("NEWOBJ_EX got %T, expected a tuple", args)
	}
	return &node{class: &class{pyobj.Global{Module: "copyreg", Name: "__newobj_ex__"}}, args: *tuple, called: true}, nil
}
