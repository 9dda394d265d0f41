package pyobj

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"testing"

	"rejoin/tensor"
)

func TestDictIsOrderedAndHashesLikePython(t *testing.T) {
	key := &Tuple{Items: []any{int64(1), int64(2)}}
	d := NewDict("b", 1, "a", 2)
	d.Set(true, "one") // True == 1 == 1.0 in Python: one key
	d.Set(1, "uno")
	d.Set(1.0, "eins")
	d.Set(key, "pair")
	d.Set("b", 3)
	d.Set(&List{}, "unhashable keys are kept")
	var keys []any
	for _, e := range d.Entries() {
		keys = append(keys, e.Key)
	}
	if len(keys) != 5 || keys[0] != "b" || keys[1] != "a" || keys[2] != true || keys[3] != any(key) {
		t.Errorf("keys = %v", keys)
	}
	for _, tc := range []struct{ key, want any }{{"b", 3}, {"a", 2}, {int64(1), "eins"}, {key, "pair"}} {
		if got, ok := d.Get(tc.key); !ok || got != tc.want {
			t.Errorf("Get(%v) = %v, %v, want %v", tc.key, got, ok, tc.want)
		}
	}
	for _, missing := range []any{"c", int64(7), &Tuple{}, &List{}, nil} {
		if got, ok := d.Get(missing); ok {
			t.Errorf("Get(%v) = %v, want nothing", missing, got)
		}
	}
}

func TestNewDictRefusesHalfAPair(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a key without a value was accepted")
		}
	}()
	half := append([]any(nil), "a")
	NewDict(half...)
}

func TestNumbers(t *testing.T) {
	f8 := binary.LittleEndian.AppendUint64(nil, math.Float64bits(1.5))
	for _, tc := range []struct {
		value      any
		asInt      int64
		intOK      bool
		asFloat    float64
		floatOK    bool
		pythonName string
	}{
		{int64(7), 7, true, 7, true, "int"},
		{7, 7, true, 7, true, "int"},
		{true, 1, true, 0, false, "bool"},
		{2.0, 2, true, 2, true, "float"},
		{2.5, 0, false, 2.5, true, "float"},
		{math.NaN(), 0, false, math.NaN(), true, "float"},
		{new(big.Int).Lsh(big.NewInt(1), 70), 0, false, 0, false, "int"},
		{&NumpyScalar{Dtype: "f8", Data: f8}, 0, false, 1.5, true, "numpy scalar"},
		{&NumpyScalar{Dtype: "f8", Data: f8[:3]}, 0, false, 0, false, "numpy scalar"},
		{"7", 0, false, 0, false, "str"},
		{nil, 0, false, 0, false, "None"},
	} {
		i, err := AsInt(tc.value)
		if (err == nil) != tc.intOK || i != tc.asInt {
			t.Errorf("AsInt(%v) = %v, %v", tc.value, i, err)
		}
		f, err := AsFloat(tc.value)
		if (err == nil) != tc.floatOK || (f != tc.asFloat && f == f) {
			t.Errorf("AsFloat(%v) = %v, %v", tc.value, f, err)
		}
		if name := TypeName(tc.value); name != tc.pythonName {
			t.Errorf("TypeName(%v) = %q, want %q", tc.value, name, tc.pythonName)
		}
	}
}

func TestBigEndianScalar(t *testing.T) {
	s := &NumpyScalar{Dtype: "u4", BigEndian: true, Data: []byte{0, 0, 1, 0}}
	if v, err := s.Float(); v != 256 || err != nil {
		t.Errorf("Float() = %v, %v", v, err)
	}
}

func TestContainers(t *testing.T) {
	w := tensor.FromFloat32([]float32{1}, 1)
	for _, v := range []any{w, &Parameter{Data: w}} {
		if got, err := AsTensor(v); got != w || err != nil {
			t.Errorf("AsTensor(%s) = %v, %v", TypeName(v), got, err)
		}
	}
	want := []any{int64(2), int64(3)}
	for _, v := range []any{&List{Items: want}, &Tuple{Items: want}, Size{2, 3}} {
		if got, err := AsItems(v); !slices.Equal(got, want) || err != nil {
			t.Errorf("AsItems(%s) = %v, %v", TypeName(v), got, err)
		}
	}
	o := &Object{Class: Global{"m", "C"}, State: NewDict("x", 1)}
	if v, ok := o.Attr("x"); v != 1 || !ok || TypeName(o) != "m.C" {
		t.Errorf("Attr(x) = %v, %v of a %s", v, ok, TypeName(o))
	}
	if _, ok := (&Object{}).Attr("x"); ok {
		t.Error("an object without state has an attribute")
	}
	if _, err := AsDict(o); err == nil {
		t.Error("an object is no dict")
	}
}
