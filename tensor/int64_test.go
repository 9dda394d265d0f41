package tensor

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

func integers(d DType, raw []byte) *Tensor {
	n := len(raw) / d.Size()
	return &Tensor{DType: d, Shape: []int{n}, Stride: []int{1}, Storage: &Storage{Data: raw, Device: "cpu"}}
}

func TestReadInt64(t *testing.T) {
	ff := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	one := binary.LittleEndian.AppendUint64(nil, 1)
	for d, want := range map[DType][]int64{
		Int64: {-1, 1}, Int32: {-1, 1}, Int16: {-1, 1}, Int8: {-1, 1},
		UInt32: {1<<32 - 1, 1}, UInt16: {1<<16 - 1, 1}, UInt8: {255, 1}, Bool: {1, 1}, UInt64: {1, 1},
	} {
		first := ff[:d.Size()]
		if d == UInt64 {
			first = one
		}
		x := integers(d, slices.Concat(first, one[:d.Size()]))
		got := make([]int64, 2)
		if err := x.ReadInt64(got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v, %v, expected %v", d, got, err, want)
		}
		floats := make([]float32, 2)
		if err := x.ReadFloat32(floats); err != nil || floats[0] != float32(want[0]) || floats[1] != 1 {
			t.Errorf("%v as float32: %v, %v", d, floats, err)
		}
	}
}

func TestReadInt64Refuses(t *testing.T) {
	got := make([]int64, 1)
	wide := integers(UInt64, []byte{0, 0, 0, 0, 0, 0, 0, 0x80})
	if err := wide.ReadInt64(got); err == nil || !strings.Contains(err.Error(), "9223372036854775808 does not fit") {
		t.Errorf("2⁶³: %v", err)
	}
	if err := integers(Float32, make([]byte, 4)).ReadInt64(got); err == nil || !strings.Contains(err.Error(), "float32") {
		t.Errorf("floats: %v", err)
	}
	if err := integers(Int8, make([]byte, 2)).ReadInt64(got); err == nil || !strings.Contains(err.Error(), "destination has 1") {
		t.Errorf("short destination: %v", err)
	}
}

func TestKindsOfDTypes(t *testing.T) {
	for d := Float64; d <= Float8E8M0FNU; d++ {
		real := d == Float64 || d == Float32 || d == Float16 || d == BFloat16
		if d.IsReal() != real || d.IsInteger() != (d >= Int64 && d <= Bool) {
			t.Errorf("%v: IsReal %v, IsInteger %v", d, d.IsReal(), d.IsInteger())
		}
	}
}
