package compare

import (
	"math"
	"math/big"
	"slices"

	"rejoin/ckpt/tree"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// maxCompared bounds the values that one leaf is taken apart into: an object's
// arguments may hold the same list again and again. What is larger differs.
const maxCompared = 1 << 20

// sameValue compares two leaves that are no tensors, as Python's == would: by
// value, but with types told apart, and NaN equal to NaN.
func sameValue(a, b any) bool {
	v := valueComparer{left: maxCompared}
	return v.same(a, b)
}

type valueComparer struct{ left int }

func (v *valueComparer) same(a, b any) bool {
	if v.left--; v.left < 0 {
		return false
	}
	switch x := a.(type) {
	case float64:
		y, ok := b.(float64)
		return ok && (math.Float64bits(x) == math.Float64bits(y) || math.IsNaN(x) && math.IsNaN(y))
	case *big.Int:
		y, ok := b.(*big.Int)
		return ok && x.Cmp(y) == 0
	case *pyobj.ByteArray:
		y, ok := b.(*pyobj.ByteArray)
		return ok && string(x.Data) == string(y.Data)
	case *pyobj.NumpyScalar:
		y, ok := b.(*pyobj.NumpyScalar)
		return ok && x.Dtype == y.Dtype && x.BigEndian == y.BigEndian && string(x.Data) == string(y.Data)
	case *pyobj.NDArray:
		y, ok := b.(*pyobj.NDArray)
		return ok && x.Dtype == y.Dtype && x.BigEndian == y.BigEndian && x.Fortran == y.Fortran && slices.Equal(x.Shape, y.Shape) && string(x.Data) == string(y.Data)
	case pyobj.Size:
		y, ok := b.(pyobj.Size)
		return ok && slices.Equal(x, y)
	case *pyobj.TypedStorage:
		y, ok := b.(*pyobj.TypedStorage)
		return ok && x.Class == y.Class && x.NumElements == y.NumElements && string(x.Storage.Data) == string(y.Storage.Data)
	case *tree.Opaque:
		y, ok := b.(*tree.Opaque)
		return ok && x.Class == y.Class // its parts are leaves of their own
	case *pyobj.Object:
		y, ok := b.(*pyobj.Object)
		return ok && x.Class == y.Class && x.Called == y.Called && v.args(x.Args, y.Args)
	case *pyobj.Set:
		y, ok := b.(*pyobj.Set)
		return ok && x.Frozen == y.Frozen && v.set(x.Items, y.Items)
	case *pyobj.List, *pyobj.Tuple, []any:
		return tree.TypeName(a) == tree.TypeName(b) && v.items(itemsOf(a), itemsOf(b))
	case *pyobj.Dict, map[string]any: // empty: others are taken apart
		return tree.TypeName(a) == tree.TypeName(b) && tree.Repr(a) == tree.Repr(b)
	case *pyobj.Parameter, *pyobj.TypedTensor:
		return false // one side alone is a tensor
	}
	return comparable(a) && comparable(b) && a == b
}

// comparable reports whether Go's == works on v.
func comparable(v any) bool {
	switch v.(type) {
	case nil, bool, int64, complex128, string, pyobj.Bytes, pyobj.Global, pyobj.Device, tree.Recursive:
		return true
	}
	return isDType(v)
}

func itemsOf(v any) []any {
	if items, ok := v.([]any); ok {
		return items
	}
	items, _ := pyobj.AsItems(v)
	return items
}

func (v *valueComparer) items(a, b []any) bool { return slices.EqualFunc(a, b, v.same) }

func (v *valueComparer) args(a, b *pyobj.Tuple) bool {
	if a == nil || b == nil {
		return a == b
	}
	return v.items(a.Items, b.Items)
}

// set compares without regard to order.
func (v *valueComparer) set(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	plain, left := map[any]int{}, []any{}
	for _, item := range b {
		if comparable(item) {
			plain[item]++
		} else {
			left = append(left, item)
		}
	}
	for _, item := range a {
		if comparable(item) {
			if plain[item]--; plain[item] < 0 {
				return false
			}
			continue
		}
		i := slices.IndexFunc(left, func(other any) bool { return v.same(item, other) })
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return true
}

func isDType(v any) bool {
	_, ok := v.(tensor.DType)
	return ok
}
