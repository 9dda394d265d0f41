package tree

import (
	"fmt"
	"slices"
	"strings"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// The bounds of a walk: in levels, and in keys over the paths of all values.
const (
	maxDepth = 500
	maxKeys  = 4 << 20
)

// longSequence is the number of plain numbers from which on a list or tuple of
// nothing else is one leaf, such as the 625 words of a generator's state.
const longSequence = 32

// Leaf is a value that is not taken apart further.
type Leaf struct {
	// Keys are the keys, indices and attribute names that lead to the value.
	Keys []string
	// Value is a tensor, a scalar, an empty container, a long list of numbers,
	// or an object that is only described.
	Value any
}

// Path is the keys joined by dots, "" for the object itself.
func (l Leaf) Path() string { return strings.Join(l.Keys, ".") }

// Tensor is the value as a tensor, nil if it is none.
func (l Leaf) Tensor() *tensor.Tensor {
	t, err := pyobj.AsTensor(l.Value)
	if err != nil {
		return nil
	}
	return t
}

// BoundsError is an object that is too deep or too large to list.
type BoundsError struct{ Problem string }

func (e *BoundsError) Error() string { return "the object cannot be listed: " + e.Problem }

// Walk lists the leaves of object, in its order. The error is a [*BoundsError],
// with the leaves found before it.
func Walk(object any) ([]Leaf, error) {
	w := &walker{within: map[any]bool{}}
	err := w.walk(nil, object)
	return w.leaves, err
}

type walker struct {
	leaves []Leaf
	keys   int
	within map[any]bool // the containers around the current value
}

// Recursive stands where a container contains itself.
type Recursive struct{ Type string }

func (w *walker) walk(keys []string, v any) error {
	if w.keys += 1 + len(keys); w.keys > maxKeys {
		return &BoundsError{fmt.Sprintf("it has over %d values, or the same ones again and again", len(w.leaves))}
	}
	if len(keys) > maxDepth {
		return &BoundsError{fmt.Sprintf("it nests deeper than %d levels", maxDepth)}
	}
	children := childrenOf(v)
	if o, ok := v.(*pyobj.Object); ok && len(children) > 0 {
		w.leaves = append(w.leaves, Leaf{keys, &Opaque{o}})
	} else if len(children) == 0 || plainNumbers(children) {
		w.leaves = append(w.leaves, Leaf{keys, v})
		return nil
	}
	if !fromJSON(v) {
		if w.within[v] {
			w.leaves = append(w.leaves, Leaf{keys, Recursive{pyobj.TypeName(v)}})
			return nil
		}
		w.within[v] = true
		defer delete(w.within, v)
	}
	for _, c := range children {
		if err := w.walk(append(slices.Clip(keys), c.key), c.value); err != nil {
			return err
		}
	}
	return nil
}

// Opaque is an object whose parts follow as leaves of their own.
type Opaque struct{ *pyobj.Object }

type child struct {
	key   string
	value any
}

func plainNumbers(children []child) bool {
	if len(children) < longSequence {
		return false
	}
	for i, c := range children {
		switch c.value.(type) {
		case int64, float64, bool:
		default:
			return false
		}
		if c.key != fmt.Sprint(i) {
			return false
		}
	}
	return true
}

// childrenOf takes a container apart; nil for a leaf.
func childrenOf(v any) []child {
	switch v := v.(type) {
	case *pyobj.Dict:
		return dictChildren(v)
	case *pyobj.List:
		return itemChildren(v.Items)
	case *pyobj.Tuple:
		return itemChildren(v.Items)
	case *pyobj.Object:
		return objectChildren(v)
	case map[string]any:
		return mapChildren(v)
	case []any:
		return itemChildren(v)
	}
	return nil
}

func itemChildren(items []any) []child {
	out := make([]child, len(items))
	for i, item := range items {
		out[i] = child{fmt.Sprint(i), item}
	}
	return out
}

func dictChildren(d *pyobj.Dict) []child {
	out := make([]child, 0, d.Len())
	for _, e := range d.Entries() {
		out = append(out, child{keyText(e.Key), e.Value})
	}
	return out
}

// keyText is a dict's key as part of a path: text and numbers as they are.
func keyText(key any) string {
	switch k := key.(type) {
	case string:
		return k
	case int64, bool:
		return fmt.Sprint(Repr(k))
	}
	return Repr(key)
}

// objectChildren lists an object's attributes, then what was added to it. An
// object that is a call of a class, such as an enum's member, is a leaf.
func objectChildren(o *pyobj.Object) []child {
	var out []child
	switch state := o.State.(type) {
	case nil:
	case *pyobj.Dict:
		out = dictChildren(state)
	default:
		out = append(out, child{"__state__", state})
	}
	out = append(out, itemChildren(o.Items)...)
	if o.Pairs != nil {
		out = append(out, dictChildren(o.Pairs)...)
	}
	if budget := 1000; o.Args != nil && holdsTensors(o.Args, &budget) {
		out = append(out, child{"__args__", o.Args})
	}
	return out
}

// holdsTensors looks for tensors among the first values of a call's arguments,
// in what is no object of its own.
func holdsTensors(v any, budget *int) bool {
	if _, err := pyobj.AsTensor(v); err == nil {
		return true
	}
	if _, ok := v.(*pyobj.Object); ok {
		return false
	}
	for _, c := range childrenOf(v) {
		if *budget--; *budget < 0 {
			return false
		}
		if holdsTensors(c.value, budget) {
			return true
		}
	}
	return false
}
