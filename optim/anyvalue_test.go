package optim

import (
	"math/big"
	"reflect"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// Any value in any place of a state dict gives an error or loads; nothing
// panics, and an error changes nothing.
func TestLoadOfAnyValueAnywhere(t *testing.T) {
	values := []any{
		nil, true, int64(-3), int64(1) << 62, new(big.Int).Lsh(big.NewInt(1), 90), 1e308, -0.5, complex(1, 2), "text", pyobj.Bytes("b"),
		&pyobj.List{}, &pyobj.Tuple{Items: []any{nil}}, pyobj.NewDict(),
		pyobj.Size{2},
		&pyobj.Object{Class: pyobj.Global{Module: "m", Name: "C"}},
		&pyobj.NumpyScalar{Dtype: "f8", Data: []byte{1}}, tensor.FromFloat32(nil, 0), tensor.FromFloat32([]float32{1}),
		&tensor.Tensor{}, &tensor.Tensor{DType: tensor.Bool, Shape: []int{-1}, Stride: []int{1}}, &pyobj.Parameter{Data: tensor.FromFloat32([]float32{1, 2}, 2)},
	}
	var count int
	// replace puts v in the n-th place below d and reports whether there is one.
	var replace func(d any, n *int, v any) bool
	replace = func(d any, n *int, v any) bool {
		switch d := d.(type) {
		case *pyobj.Dict:
			for _, e := range d.Entries() {
				if *n--; *n < 0 {
					d.Set(e.Key, v)
					return true
				}
				if replace(e.Value, n, v) {
					return true
				}
			}
		case *pyobj.List:
			for i := range d.Items {
				if *n--; *n < 0 {
					d.Items[i] = v
					return true
				}
				if replace(d.Items[i], n, v) {
					return true
				}
			}
		}
		return false
	}
	for place, more := 0, true; more; place++ {
		for _, v := range values {
			a := smallAdam(t, 1e-3)
			a.Step()
			d := a.StateDict()
			n := place
			if more = replace(d, &n, v); !more {
				break
			}
			count++
			before := a.StateDict()
			if err := a.LoadStateDict(d); err != nil && !reflect.DeepEqual(a.StateDict(), before) {
				t.Errorf("place %d, value %v: %v, and the optimizer changed", place, v, err)
			}
			a.Step()
			a.StateDict()
		}
	}
	if count < 20*len(values) {
		t.Errorf("only %d changes were tried", count)
	}
}
