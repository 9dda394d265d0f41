package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"rejoin/tensor"
)

// A kernelCase runs one kernel on copies of x, y, z and w, which are of equal
// length, and returns all that it wrote.
type kernelCase struct {
	name string
	run  func(x, y, z, w []float32, a, b float32) []float32
}

// split shows the bits of a float64 as two float32; every NaN alike.
func split(f float64) []float32 {
	if f != f {
		f = math.NaN()
	}
	u := math.Float64bits(f)
	return []float32{math.Float32frombits(uint32(u >> 32)), math.Float32frombits(uint32(u))}
}

func adamCase(name string, c AdamCoeffs) kernelCase {
	return kernelCase{name, func(x, y, z, w []float32, _, _ float32) []float32 {
		for i := range w {
			w[i] = float32(math.Abs(float64(w[i]))) // a second moment
		}
		AdamFused(x, y, z, w, &c)
		return append(append(append(x, y...), z...), w...)
	}}
}

var kernelCases = []kernelCase{
	{"relu", func(x, y, _, _ []float32, _, _ float32) []float32 { ReLU(y, x); return y }},
	{"relu in place", func(x, _, _, _ []float32, _, _ float32) []float32 { ReLU(x, x); return x }},
	{"relu backward", func(x, y, z, _ []float32, _, _ float32) []float32 { ReLUBackward(z, x, y); return z }},
	{"add", func(x, y, _, _ []float32, _, _ float32) []float32 { Add(x, y); return x }},
	{"add scaled", func(x, y, z, _ []float32, a, _ float32) []float32 { AddScaled(z, x, y, a); return z }},
	{"add scaled in place", func(x, y, _, _ []float32, _, _ float32) []float32 { AddScaled(y, x, y, 1); return y }},
	{"axpy", func(x, y, _, _ []float32, a, _ float32) []float32 { Axpy(x, a, y); return x }},
	{"scale", func(x, _, _, _ []float32, a, _ float32) []float32 { Scale(x, a); return x }},
	{"mse grad", func(x, y, z, _ []float32, a, b float32) []float32 { MSEGrad(z, x, y, a, b); return z }},
	{"sum of squares", func(x, _, _, _ []float32, _, _ float32) []float32 { return split(SumSquares(x)) }},
	{"sum of squared differences", func(x, y, _, _ []float32, _, _ float32) []float32 { return split(SumSquaredDiff(x, y)) }},
	{"row maximum", func(x, _, _, _ []float32, _, _ float32) []float32 { return []float32{RowMax(x) + 0} }},
	{"sum of exponentials", func(x, _, _, _ []float32, _, _ float32) []float32 { return []float32{SumExp(x, RowMax(x))} }},
	{"softmax grad", func(x, y, _, _ []float32, a, b float32) []float32 {
		SoftmaxGrad(y, x, RowMax(x), float32(math.Abs(float64(a))), b)
		return y
	}},
	{"column sums", func(x, y, _, _ []float32, _, _ float32) []float32 {
		cols := min(len(x), 11)
		AddColumnSums(y[:cols], x[:len(x)-len(x)%max(cols, 1)])
		return y
	}},
	adamCase("adamw", AdamCoeffs{DecayFactor: 0.99999, OneMinusBeta1: 0.1, Beta2: 0.999, OneMinusBeta2: 0.001, SqrtBC2: 0.0316, Eps: 1e-8, NegStepSize: -0.01}),
	adamCase("adam with l2", AdamCoeffs{DecayFactor: 1, L2: 0.01, OneMinusBeta1: 0.1, Beta2: 0.99, OneMinusBeta2: 0.01, SqrtBC2: 0.1, Eps: 1e-6, NegStepSize: -0.01, Maximize: true}),
	adamCase("adam with a large weight", AdamCoeffs{DecayFactor: 1, OneMinusBeta1: 0.7, Beta2: 0.9, OneMinusBeta2: 0.1, SqrtBC2: 0.3, Eps: 1e-8, NegStepSize: -0.1}),
}

// atLevel runs f with or without assembly. Tests that use it do not run in parallel.
func atLevel(avx2 bool, f func()) {
	before := useAVX2
	defer func() { useAVX2 = before }()
	useAVX2 = avx2
	f()
}

// compareLevels checks that assembly and plain Go give the same bits.
func compareLevels(t *testing.T, data [4][]float32, a, b float32) {
	t.Helper()
	for _, kc := range kernelCases {
		var got [2][]float32
		for i, avx2 := range []bool{false, true} {
			var in [4][]float32
			for j := range in {
				in[j] = tensor.AlignedFloat32(len(data[j]))
				copy(in[j], data[j])
			}
			atLevel(avx2, func() { got[i] = kc.run(in[0], in[1], in[2], in[3], a, b) })
		}
		sameBits(t, fmt.Sprintf("%s of %d elements: assembly against plain Go", kc.name, len(data[0])), got[1], got[0])
	}
}

func needAVX2(t *testing.T) {
	t.Helper()
	if !hasAVX2 {
		t.Skip("this CPU has no AVX2: there is no assembly to compare with plain Go")
	}
}

func TestLevelsGiveTheSameBits(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(5, 6))
	sizes := []int{chunk + 21, 2*chunk + 8}
	for n := range 50 {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		var data [4][]float32
		for j := range data {
			data[j] = random(r, n)
			for i := range data[j] {
				data[j][i] *= float32(math.Exp2(float64(r.IntN(24) - 12)))
			}
		}
		compareLevels(t, data, float32(r.NormFloat64()), float32(r.NormFloat64()))
	}
}

// Any bit pattern: NaN, infinities, subnormal numbers, zeros of both signs.
func TestLevelsGiveTheSameBitsOnAnyFloat(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(7, 8))
	special := []uint32{0, 1 << 31, 1, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff, 0x00800000, 0x3f800000}
	for range 200 {
		n := r.IntN(70)
		var data [4][]float32
		for j := range data {
			data[j] = tensor.AlignedFloat32(n)
			for i := range data[j] {
				bits := r.Uint32()
				if r.IntN(4) == 0 {
					bits = special[r.IntN(len(special))]
				}
				data[j][i] = math.Float32frombits(bits)
			}
		}
		compareLevels(t, data, float32(r.NormFloat64()), float32(r.NormFloat64()))
	}
}

func FuzzLevelsGiveTheSameBits(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef"), float32(1), float32(-0.5))
	f.Add([]byte{0, 0, 0x80, 0x7f, 0, 0, 0xc0, 0xff, 1, 0, 0, 0, 0, 0, 0, 0x80}, float32(0), float32(3e38))
	f.Fuzz(func(t *testing.T, raw []byte, a, b float32) {
		needAVX2(t)
		var data [4][]float32
		n := min(len(raw)/16, 1000)
		for j := range data {
			data[j] = make([]float32, n)
			if _, err := binary.Decode(raw[4*n*j:], binary.LittleEndian, data[j]); err != nil {
				t.Fatal(err)
			}
		}
		compareLevels(t, data, a, b)
	})
}
