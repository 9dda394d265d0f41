package pyobj

import (
	"slices"

	"rejoin/tensor"
)

// A Cloner makes deep copies, as Python's copy.deepcopy does: a copy shares no
// bytes with the original, which may be views of a mapped file, and objects
// that were one object stay one object over all of a Cloner's copies. The zero
// Cloner is ready to use.
type Cloner struct{ done map[any]any }

// Clone returns a deep copy of v. Immutable values are returned as they are.
func (c *Cloner) Clone(v any) any {
	switch v.(type) {
	case *List, *Tuple, *Dict, *Set, *Object, *tensor.Tensor, *tensor.Storage,
		*Parameter, *TypedTensor, *TypedStorage, *ByteArray, *NDArray, *NumpyScalar:
	default:
		return v
	}
	if copied, ok := c.done[v]; ok {
		return copied
	}
	if c.done == nil {
		c.done = map[any]any{}
	}
	return c.clone(v)
}

// clone copies one object; it is noted as done before its members are copied,
// because they may refer to it.
func (c *Cloner) clone(v any) any {
	switch v := v.(type) {
	case *List:
		return fill(c, v, func(d *List) { d.Items = c.items(v.Items) })
	case *Tuple:
		return fill(c, v, func(d *Tuple) { d.Items = c.items(v.Items) })
	case *Set:
		return fill(c, v, func(d *Set) { d.Items = c.items(v.Items) })
	case *Dict:
		return fill(c, v, func(d *Dict) { c.dict(d, v) })
	case *Object:
		return fill(c, v, func(d *Object) { c.object(d) })
	case *Parameter:
		return fill(c, v, func(d *Parameter) { d.Data, d.State = same(c, v.Data), c.Clone(v.State) })
	case *TypedTensor:
		return fill(c, v, func(d *TypedTensor) { d.Data, d.State = same(c, v.Data), c.Clone(v.State) })
	case *TypedStorage:
		return fill(c, v, func(d *TypedStorage) { d.Storage = same(c, v.Storage) })
	case *tensor.Tensor:
		return fill(c, v, func(d *tensor.Tensor) {
			d.Shape, d.Stride, d.Storage = slices.Clone(v.Shape), slices.Clone(v.Stride), same(c, v.Storage)
		})
	case *tensor.Storage:
		return fill(c, v, func(d *tensor.Storage) { d.Data = slices.Clone(v.Data) })
	case *ByteArray:
		return fill(c, v, func(d *ByteArray) { d.Data = slices.Clone(v.Data) })
	case *NDArray:
		return fill(c, v, func(d *NDArray) { d.Shape, d.Data = slices.Clone(v.Shape), slices.Clone(v.Data) })
	case *NumpyScalar:
		return fill(c, v, func(d *NumpyScalar) { d.Data = slices.Clone(v.Data) })
	}
	return v
}

// fill makes a shallow copy of v, notes it, and lets deepen replace what v shares.
func fill[T any](c *Cloner, v *T, deepen func(*T)) *T {
	d := new(T)
	*d = *v
	c.done[v] = d
	deepen(d)
	return d
}

// same clones a pointer of known type, nil included.
func same[T any](c *Cloner, v *T) *T {
	if v == nil {
		return nil
	}
	return c.Clone(v).(*T)
}

func (c *Cloner) items(items []any) []any {
	out := slices.Clone(items)
	for i := range out {
		out[i] = c.Clone(out[i])
	}
	return out
}

func (c *Cloner) dict(d, v *Dict) {
	d.Factory, d.State = c.Clone(v.Factory), c.Clone(v.State)
	d.entries, d.index = nil, nil
	for _, e := range v.entries {
		d.Set(c.Clone(e.Key), c.Clone(e.Value))
	}
}

func (c *Cloner) object(d *Object) {
	d.Args, d.Pairs = same(c, d.Args), same(c, d.Pairs)
	d.State, d.Items = c.Clone(d.State), c.items(d.Items)
}
