package kernel

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
)

// floats is a float32 array that testdata holds as base64.
type floats []float32

func (f *floats) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	*f = make(floats, len(data)/4)
	_, err = binary.Decode(data, binary.LittleEndian, *f)
	return err
}

type torchAdamCase struct {
	AdamW       bool       `json:"adamw"`
	LR          float64    `json:"lr"`
	Betas       [2]float64 `json:"betas"`
	Eps         float64    `json:"eps"`
	WeightDecay float64    `json:"weight_decay"`
	Maximize    bool       `json:"maximize"`
	N           int        `json:"n"`
	P0          floats     `json:"p0"`
	Steps       []struct {
		G, P, M, V floats
	} `json:"steps"`
}

func (tc *torchAdamCase) coeffs(step int) *AdamCoeffs {
	bc1 := 1 - math.Pow(tc.Betas[0], float64(step))
	bc2 := 1 - math.Pow(tc.Betas[1], float64(step))
	c := &AdamCoeffs{
		DecayFactor:   1,
		OneMinusBeta1: float32(1 - tc.Betas[0]),
		Beta2:         float32(tc.Betas[1]),
		OneMinusBeta2: float32(1 - tc.Betas[1]),
		SqrtBC2:       float32(math.Sqrt(bc2)),
		Eps:           float32(tc.Eps),
		NegStepSize:   float32(-(tc.LR / bc1)),
		Maximize:      tc.Maximize,
	}
	if tc.AdamW {
		c.DecayFactor = float32(1 - tc.LR*tc.WeightDecay)
	} else {
		c.L2 = float32(tc.WeightDecay)
	}
	return c
}

// sameBits reports the first element whose bits differ; NaNs are all alike.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		if got[i] != got[i] && want[i] != want[i] {
			continue
		}
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d of %d is %v (%08x), want %v (%08x)", what, i, len(want),
				got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

func TestAdamFusedEqualsTorch(t *testing.T) {
	raw, err := os.ReadFile("testdata/adam.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []torchAdamCase }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 40 {
		t.Fatalf("testdata holds %d cases", len(file.Cases))
	}
	for i, tc := range file.Cases {
		t.Run(fmt.Sprintf("%d/adamw=%v/n=%d", i, tc.AdamW, tc.N), func(t *testing.T) {
			p := slices.Clone(tc.P0)
			m, v := make([]float32, tc.N), make([]float32, tc.N)
			for s, step := range tc.Steps {
				g := slices.Clone(step.G)
				AdamFused(p, g, m, v, tc.coeffs(s+1))
				what := fmt.Sprintf("step %d ", s+1)
				sameBits(t, what+"exp_avg", m, step.M)
				sameBits(t, what+"exp_avg_sq", v, step.V)
				sameBits(t, what+"param", p, step.P)
				sameBits(t, what+"gradient, which is only read,", g, step.G)
			}
		})
	}
}

func TestAdamFusedRefusesUnequalLengths(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	AdamFused(make([]float32, 3), make([]float32, 3), make([]float32, 2), make([]float32, 3), &AdamCoeffs{})
}

func TestFMA32(t *testing.T) {
	inf := float32(math.Inf(1))
	big := float32(math.MaxFloat32)
	for _, tc := range []struct{ x, y, z, want float32 }{
		{2, 3, 4, 10},
		{1 + 0x1p-23, 1 + 0x1p-23, -(1 + 0x1p-22), 0x1p-46}, // the product's last bit survives
		{1 + 0x1p-12, 1 + 0x1p-12, 0x1p-60, 1 + 0x1p-11 + 0x1p-23},
		{1, 1, 0x1p-24, 1},                     // a tie goes to even
		{1 + 0x1p-23, 1, 0x1p-24, 1 + 0x1p-22}, // the other way
		{0x1p-24, 1, 1 + 0x1p-23, 1 + 0x1p-22},
		// A sum just above a tie, by less than float64 can hold: rounding twice gives 1.
		{0x1p-24 + 0x1p-47, 1, 1, 1 + 0x1p-23},
		{0x1p-40, 0x1p-40, 1 + 0x1p-23, 1 + 0x1p-23},
		{-0x1p-60, 0x1p-100, 0x1p-149, 0x1p-149},
		{0x1p-75, 0x1p-75, 0, 0},               // half the smallest subnormal, tie to even
		{0x1p-75, 0x1.000002p-75, 0, 0x1p-149}, // just above it
		{big, 2, -big, big},                    // an intermediate overflow is none
		{big, 2, 0, inf},                       // a real one is
		{inf, 1, 1, inf},                       // infinities pass
		{inf, 0, 1, float32(math.NaN())},       // and make NaN
		{inf, 1, -inf, float32(math.NaN())},    //
		{1, float32(math.NaN()), 1, float32(math.NaN())},
	} {
		sameBits(t, fmt.Sprintf("fma(%v, %v, %v)", tc.x, tc.y, tc.z), []float32{fma32(tc.x, tc.y, tc.z)}, []float32{tc.want})
	}
}
