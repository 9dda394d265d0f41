package pyobj

import (
	"reflect"
	"testing"

	"rejoin/tensor"
)

func TestCloneIsEqualAndSharesNothing(t *testing.T) {
	weights := tensor.FromFloat32([]float32{1, 2, 3, 4}, 2, 2)
	row := &tensor.Tensor{DType: tensor.Float32, Shape: []int{2}, Stride: []int{1}, Offset: 2, Storage: weights.Storage}
	key := &Tuple{Items: []any{int64(1), "x"}}
	original := NewDict(
		"none", nil, "int", int64(1), "text", "abc", "bytes", Bytes("b"), "size", Size{2, 3},
		"weights", weights, "row", row, "param", &Parameter{Data: weights},
		"buffer", &TypedTensor{Data: weights, Class: Global{"torch.nn.parameter", "Buffer"}},
		"storage", &TypedStorage{DType: tensor.Float32, Storage: weights.Storage, NumElements: 4},
		"array", &NDArray{Shape: []int{2}, Dtype: "u4", Data: []byte{1, 2}},
		"scalar", &NumpyScalar{Dtype: "u1", Data: []byte{3}},
		"bytearray", &ByteArray{Data: []byte{4}},
		"set", &Set{Items: []any{int64(5)}},
		"object", &Object{Class: Global{"m", "C"}, Args: &Tuple{Items: []any{weights}}, State: NewDict("a", int64(1)), Pairs: NewDict()},
		key, true,
	)
	original.State = &List{Items: []any{"state"}}

	copied := new(Cloner).Clone(original).(*Dict)
	if !reflect.DeepEqual(copied.Entries(), original.Entries()) || !reflect.DeepEqual(copied.State, original.State) {
		t.Fatalf("the copy differs:\n%v\n%v", copied.Entries(), original.Entries())
	}
	get := func(key string) any { v, _ := copied.Get(key); return v }
	w, r, p := get("weights").(*tensor.Tensor), get("row").(*tensor.Tensor), get("param").(*Parameter)
	if w == weights || &w.Storage.Data[0] == &weights.Storage.Data[0] {
		t.Error("the copy shares a tensor's bytes with the original")
	}
	if r.Storage != w.Storage || p.Data != w {
		t.Error("views of one storage, or places of one tensor, became two")
	}
	if get("buffer").(*TypedTensor).Data != w || get("storage").(*TypedStorage).Storage != w.Storage {
		t.Error("a buffer or a storage lost what it shares")
	}
	array, _ := original.Get("array")
	if &get("array").(*NDArray).Data[0] == &array.(*NDArray).Data[0] {
		t.Error("the copy shares an array's bytes with the original")
	}
	for i, e := range copied.Entries() {
		from := original.Entries()[i].Value
		if reflect.ValueOf(from).Kind() == reflect.Pointer && e.Value == from {
			t.Errorf("%v is not a copy but the original's %T", e.Key, from)
		}
	}
	if v, ok := copied.Get("int"); !ok || v != int64(1) {
		t.Error("the copied dict does not find its keys")
	}
}

func TestCloneKeepsIdentityAcrossCalls(t *testing.T) {
	betas := &Tuple{Items: []any{0.9, 0.999}}
	var c Cloner
	if c.Clone(betas) != c.Clone(betas) {
		t.Error("one object became two")
	}
	if c.Clone(betas) == any(betas) {
		t.Error("a tuple was not copied")
	}
}

func TestCloneEndsOnCycles(t *testing.T) {
	l := &List{}
	l.Items = append(l.Items, l)
	copied := new(Cloner).Clone(l).(*List)
	if copied.Items[0] != any(copied) {
		t.Error("the cycle does not lead to the copy")
	}
}
