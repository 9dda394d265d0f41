package tensor

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// Every byte of every 8-bit float, as torch 2.14.1 widens it.
func TestFloat8AsTorchWidensIt(t *testing.T) {
	raw, err := os.ReadFile("testdata/float8.json")
	if err != nil {
		t.Fatal(err)
	}
	var tables map[string][]string // the bits of the float64, or nan
	if err := json.Unmarshal(raw, &tables); err != nil {
		t.Fatal(err)
	}
	if len(tables) != 5 {
		t.Fatalf("%d types", len(tables))
	}
	for name, want := range tables {
		d, err := ParseDType(name)
		if err != nil {
			t.Fatal(err)
		}
		decode, ok := Float64Decoder(d)
		if !ok || len(want) != 256 {
			t.Fatalf("%s: %v, %d values", name, ok, len(want))
		}
		for b := range 256 {
			if got := bits64(decode([]byte{byte(b)})); got != want[b] {
				t.Errorf("%s %#02x = %s, want %s", name, b, got, want[b])
			}
		}
	}
}

func bits64(v float64) string {
	b, _ := json.Marshal(math.Float64bits(v))
	if math.IsNaN(v) {
		return "nan"
	}
	return string(b)
}

func TestFloat64DecoderReadsEveryRealType(t *testing.T) {
	for _, tc := range []struct {
		d    DType
		raw  []byte
		want float64
	}{
		{Float64, []byte{0, 0, 0, 0, 0, 0, 0xf8, 0xbf}, -1.5},
		{Float32, []byte{0, 0, 0xc0, 0x3f}, 1.5},
		{Float16, []byte{0, 0x3e}, 1.5},
		{BFloat16, []byte{0xc0, 0x3f}, 1.5},
		{Int64, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, -2},
		{Int32, []byte{0xfe, 0xff, 0xff, 0xff}, -2},
		{Int16, []byte{0xfe, 0xff}, -2},
		{Int8, []byte{0xfe}, -2},
		{UInt64, []byte{0, 0, 0, 0, 0, 0, 0, 0x80}, 1 << 63},
		{UInt32, []byte{0, 0, 0, 0x80}, 1 << 31},
		{UInt16, []byte{0, 0x80}, 1 << 15},
		{UInt8, []byte{0xfe}, 254},
		{Bool, []byte{2}, 1},
	} {
		decode, ok := Float64Decoder(tc.d)
		if !ok {
			t.Errorf("%v has no decoder", tc.d)
		} else if got := decode(tc.raw); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.d, got, tc.want)
		}
	}
	for d, part := range map[DType]DType{Complex128: Float64, Complex64: Float32, Complex32: Float16, Float32: Invalid} {
		if _, ok := Float64Decoder(d); ok == part.Valid() || d.ComplexPart() != part {
			t.Errorf("%v: decoder %v, part %v", d, ok, d.ComplexPart())
		}
	}
	for d := Invalid; int(d) < len(dtypes); d++ {
		if decode, ok := Float64Decoder(d); ok {
			decode(make([]byte, d.Size())) // must not reach beyond one element
		}
	}
}
