package convert

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"rejoin/tensor"
)

// Every rounding is torch's.
func TestCastsAsTorchDoes(t *testing.T) {
	raw, err := os.ReadFile("testdata/cast.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Float32  []uint32 `json:"float32"`
		Float16  []uint16 `json:"float16"`
		BFloat16 []uint16 `json:"bfloat16"`
		Float64  []string `json:"float64"`
		Double16 []uint16 `json:"float64_float16"`
		DoubleB  []uint16 `json:"float64_bfloat16"`
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if len(want.Float32) < 400 || len(want.Float64) < 8 {
		t.Fatal("too few values")
	}
	check := func(v float64, to tensor.DType, bits uint16) {
		t.Helper()
		dst := make([]byte, 2)
		encode(dst, v, to)
		if got := binary.LittleEndian.Uint16(dst); got != bits {
			t.Errorf("%v as %v: %#04x, want %#04x", v, to, got, bits)
		}
	}
	for i, b := range want.Float32 {
		v := float64(math.Float32frombits(b))
		check(v, tensor.Float16, want.Float16[i])
		check(v, tensor.BFloat16, want.BFloat16[i])
	}
	for i, s := range want.Float64 {
		b, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		v := math.Float64frombits(b)
		check(v, tensor.Float16, want.Double16[i])
		check(v, tensor.BFloat16, want.DoubleB[i])
	}
	check(math.NaN(), tensor.BFloat16, 0x7fc0)
	check(math.NaN(), tensor.Float16, 0x7e00)
}

// What is called exact reads back as the same value, for every value
// (D06, huggingface/candle#2875).
func TestWideningIsExact(t *testing.T) {
	from := []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float8E4M3FN, tensor.Float8E5M2, tensor.Float8E4M3FNUZ, tensor.Float8E5M2FNUZ, tensor.Float8E8M0FNU}
	for _, d := range from {
		data := make([]byte, 0, 1<<17)
		for i := range 1 << (8 * d.Size()) {
			data = append(data, byte(i))
			if d.Size() == 2 {
				data = append(data, byte(i>>8))
			}
		}
		n := len(data) / d.Size()
		x := &tensor.Tensor{DType: d, Shape: []int{n}, Stride: []int{1}, Storage: &tensor.Storage{Data: data}}
		decode, _ := tensor.Float64Decoder(d)
		for _, to := range Targets {
			y, err := cast("x", x, to, &loss{from: d, to: to})
			if err != nil {
				t.Fatal(err)
			}
			back, _ := tensor.Float64Decoder(to)
			same := true
			for i := range n {
				v, w := decode(data[i*d.Size():]), back(y.Storage.Data[i*to.Size():])
				if v != w && !(math.IsNaN(v) && math.IsNaN(w)) {
					same = false
				}
			}
			if widens(d, to) != same {
				t.Errorf("%v → %v: widens says %v, the values %v", d, to, widens(d, to), same)
			}
		}
	}
}

func TestLossIsSaid(t *testing.T) {
	w := &weights{sd: tensor.NewStateDict()}
	w.sd.Set("a", tensor.FromFloat32([]float32{1, 1e9, 1e-30, 1.0001}, 4))
	w.sd.Set("b", tensor.FromFloat32([]float32{1e9}, 1))
	w.sd.Set("n", &tensor.Tensor{DType: tensor.Int64, Storage: &tensor.Storage{Data: make([]byte, 8)}})
	if err := w.convertTo(tensor.Float16); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(w.notes, "\n")
	for _, part := range []string{"float32 → float16 rounds: 2 tensors, largest relative error 0.0001", "2 finite elements became infinite, the first in a", "1 elements became zero", "left in their own dtype, as no floating-point numbers: n"} {
		if !strings.Contains(all, part) {
			t.Errorf("%q is not in:\n%s", part, all)
		}
	}
	if err := w.convertTo(tensor.Float32); err != nil || !strings.Contains(strings.Join(w.notes, "\n"), "float16 → float32 is exact") {
		t.Errorf("%v: %q", err, w.notes)
	}
}
