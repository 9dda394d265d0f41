package tensor

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// counting is a storage of n float32 elements 0, 1, 2 …
func counting(n int) *Storage {
	var data []byte
	for i := range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(i)))
	}
	return &Storage{Data: data, Device: "cpu", Key: "0"}
}

func TestViewsReadTheirOwnElements(t *testing.T) {
	base := counting(12) // as 3×4
	for name, tc := range map[string]struct {
		shape, stride []int
		offset        int
		want          []float32
	}{
		"whole":       {[]int{3, 4}, []int{4, 1}, 0, []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		"rows":        {[]int{2, 4}, []int{4, 1}, 4, []float32{4, 5, 6, 7, 8, 9, 10, 11}},
		"every other": {[]int{3, 2}, []int{4, 2}, 0, []float32{0, 2, 4, 6, 8, 10}},
		"transposed":  {[]int{4, 3}, []int{1, 4}, 0, []float32{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}},
		"diagonal":    {[]int{3}, []int{5}, 0, []float32{0, 5, 10}},
		"expanded":    {[]int{2, 4}, []int{0, 1}, 8, []float32{8, 9, 10, 11, 8, 9, 10, 11}},
		"element":     {nil, nil, 6, []float32{6}},
		"empty":       {[]int{2, 0}, []int{1, 1}, 12, []float32{}},
	} {
		t.Run(name, func(t *testing.T) {
			v := &Tensor{DType: Float32, Shape: tc.shape, Stride: tc.stride, Offset: tc.offset, Storage: base}
			if err := v.Check(); err != nil {
				t.Fatal(err)
			}
			got := make([]float32, v.NumElements())
			if err := v.ReadFloat32(got); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("elements = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestCheckRefusesWhatReachesOutside(t *testing.T) {
	huge := math.MaxInt / 2
	for name, tc := range map[string]struct {
		dtype         DType
		shape, stride []int
		offset        int
		says          string
	}{
		"one past the end":  {Float32, []int{5}, []int{1}, 8, "reach element 12, but storage \"0\" holds 12"},
		"stride":            {Float32, []int{3, 4}, []int{5, 1}, 0, "reach element 13"},
		"wider dtype":       {Float64, []int{7}, []int{1}, 0, "holds 6"},
		"negative size":     {Float32, []int{-1}, []int{1}, 0, "negative"},
		"negative stride":   {Float32, []int{2}, []int{-1}, 4, "negative"},
		"negative offset":   {Float32, []int{1}, []int{1}, -1, "negative"},
		"ranks differ":      {Float32, []int{2, 2}, []int{1}, 0, "2 dimensions, stride [1] has 1"},
		"product overflows": {Float32, []int{huge, huge}, []int{0, 0}, 0, "overflow"},
		"reach overflows":   {Float32, []int{huge}, []int{huge}, 0, "overflow"},
		"unknown dtype":     {Invalid, []int{1}, []int{1}, 0, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&Tensor{DType: tc.dtype, Shape: tc.shape, Stride: tc.stride, Offset: tc.offset, Storage: counting(12)}).Check()
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("Check() = %v, want an error with %q", err, tc.says)
			}
		})
	}
}

func TestMetaIsNeverZeros(t *testing.T) {
	ghost := &Tensor{DType: Float32, Shape: []int{3, 4}, Stride: []int{4, 1}, Meta: true}
	if err := ghost.Check(); err != nil {
		t.Fatalf("a meta tensor is a legal tensor: %v", err)
	}
	if err := ghost.ReadFloat32(make([]float32, 12)); err == nil || !strings.Contains(err.Error(), "meta") {
		t.Errorf("reading a meta tensor: err = %v, want one that says so", err)
	}
}

func TestReadFloat32Converts(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for name, tc := range map[string]struct {
		dtype DType
		raw   []byte
		want  []float64
	}{
		"float16 one, min subnormal, max, inf": {Float16, []byte{0, 0x3c, 1, 0, 0xff, 0x7b, 0, 0x7c}, []float64{1, 0x1p-24, 65504, inf}},
		"float16 negative zero":                {Float16, []byte{0, 0x80}, []float64{math.Copysign(0, -1)}},
		"float16 nan":                          {Float16, []byte{1, 0x7e}, []float64{nan}},
		"bfloat16":                             {BFloat16, []byte{0x80, 0x3f, 0x00, 0xc0}, []float64{1, -2}},
		"float64 rounds to nearest even":       {Float64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(1+0x1p-24)), []float64{1}},
		"int8":                                 {Int8, []byte{0xff, 5}, []float64{-1, 5}},
		"uint8":                                {UInt8, []byte{0xff}, []float64{255}},
		"bool":                                 {Bool, []byte{0, 1}, []float64{0, 1}},
		"int64":                                {Int64, binary.LittleEndian.AppendUint64(nil, uint64(1<<40)), []float64{1 << 40}},
	} {
		t.Run(name, func(t *testing.T) {
			v := &Tensor{DType: tc.dtype, Shape: []int{len(tc.want)}, Stride: []int{1}, Storage: &Storage{Data: tc.raw}}
			got := make([]float32, len(tc.want))
			if err := v.ReadFloat32(got); err != nil {
				t.Fatal(err)
			}
			for i, g := range got {
				w := float32(tc.want[i])
				if math.Float32bits(g) != math.Float32bits(w) && !(math.IsNaN(tc.want[i]) && g != g) {
					t.Errorf("element %d = %v, want %v", i, g, w)
				}
			}
		})
	}
	c := &Tensor{DType: Complex64, Shape: []int{1}, Stride: []int{1}, Storage: &Storage{Data: make([]byte, 8)}}
	if err := c.ReadFloat32(make([]float32, 1)); err == nil {
		t.Error("a complex element was read as float32")
	}
}

func TestAlignedFloat32(t *testing.T) {
	for n := range 100 {
		buf := AlignedFloat32(n)
		if len(buf) != n || cap(buf) != n {
			t.Fatalf("len, cap = %d, %d, want %d", len(buf), cap(buf), n)
		}
		if n > 0 && uintptr(unsafe.Pointer(&buf[0]))%Alignment != 0 {
			t.Fatalf("%d floats start at %p", n, &buf[0])
		}
	}
}

func TestDTypeNamesRoundTrip(t *testing.T) {
	for d := Invalid + 1; d.Valid(); d++ {
		got, err := ParseDType(d.String())
		if err != nil || got != d || d.Size() == 0 {
			t.Errorf("ParseDType(%q) = %v, %v (size %d)", d, got, err, d.Size())
		}
	}
	if d, err := ParseDType("half"); d != Float16 || err != nil {
		t.Errorf("half is %v, %v", d, err)
	}
	for _, name := range []string{"", "invalid", "float128"} {
		if d, err := ParseDType(name); err == nil {
			t.Errorf("ParseDType(%q) = %v", name, d)
		}
	}
}

func TestStateDictRefusesAnotherShape(t *testing.T) {
	sd := NewStateDict()
	sd.Set("w", FromFloat32([]float32{1, 2, 3}, 3, 1))
	sd.Set("b", FromFloat32([]float32{4}, 1))
	sd.Set("w", FromFloat32([]float32{5, 6, 7}, 3, 1))
	if names := sd.Names(); !slices.Equal(names, []string{"w", "b"}) {
		t.Errorf("names = %v", names)
	}
	dst := make([]float32, 3)
	if err := sd.ReadFloat32(dst, "w", []int{3, 1}); err != nil || !slices.Equal(dst, []float32{5, 6, 7}) {
		t.Errorf("w = %v, %v", dst, err)
	}
	for name, shape := range map[string][]int{"w": {3}, "missing": {3}} {
		if err := sd.ReadFloat32(dst, name, shape); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s as %v: err = %v", name, shape, err)
		}
	}
}

// A view is the tensor of a copy, until its values change.
func TestViewFloat32(t *testing.T) {
	values := []float32{1, -2, 3, 4, 5, 6}
	view, copied := ViewFloat32(values, 2, 3), FromFloat32(values, 2, 3)
	if !reflect.DeepEqual(view, copied) {
		t.Errorf("%+v, expected %+v", view, copied)
	}
	var written bytes.Buffer
	if err := WriteFloat32(&written, values); err != nil || !bytes.Equal(written.Bytes(), copied.Storage.Data) {
		t.Errorf("written as %x, %v; expected %x", written.Bytes(), err, copied.Storage.Data)
	}
	if empty := ViewFloat32(nil, 0, 3); empty.Check() != nil || len(empty.Storage.Data) != 0 {
		t.Errorf("an empty one: %+v", empty)
	}
	values[1] = 7
	got := make([]float32, 6)
	if err := view.ReadFloat32(got); err != nil || hostIsLittle && got[1] != 7 {
		t.Errorf("the view reads %v, %v", got, err)
	}
	if err := copied.ReadFloat32(got); err != nil || got[1] != -2 {
		t.Errorf("the copy reads %v, %v", got, err)
	}
}

// CheckFloat32 foretells, of every dtype and of tensors that are broken or have no
// elements, whether ReadFloat32 fails.
func TestCheckFloat32(t *testing.T) {
	storage := &Storage{Data: make([]byte, 64)}
	for d := range DType(64) {
		x := &Tensor{DType: d, Shape: []int{2}, Stride: []int{1}, Storage: storage}
		if !d.Valid() {
			if x.CheckFloat32() == nil {
				t.Errorf("dtype %d is not refused", d)
			}
			continue
		}
		check, read := x.CheckFloat32(), x.ReadFloat32(make([]float32, 2))
		if (check == nil) != (read == nil) || check != nil && check.Error() != read.Error() {
			t.Errorf("%v: foretold %v, found %v", d, check, read)
		}
	}
	if err := (&Tensor{DType: Float32, Shape: []int{2}, Stride: []int{1}, Meta: true}).CheckFloat32(); err == nil {
		t.Error("a meta tensor is not refused")
	}
	if err := (&Tensor{DType: Float32, Shape: []int{17}, Stride: []int{1}, Storage: storage}).CheckFloat32(); err == nil {
		t.Error("a tensor that reaches outside is not refused")
	}
}
