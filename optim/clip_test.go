package optim

import (
	"math"
	"testing"
)

func gradParams(grads ...[]float32) []*Param {
	var params []*Param
	for _, g := range grads {
		params = append(params, &Param{Grad: g})
	}
	return params
}

func TestGradNormOfNothing(t *testing.T) {
	if got := GradNorm(nil); got != 0 {
		t.Errorf("norm of no parameters is %v", got)
	}
	if got := GradNorm(gradParams(nil, []float32{})); got != 0 {
		t.Errorf("norm of no gradients is %v", got)
	}
}

func TestClipGradNorm(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, tc := range []struct {
		name           string
		grads          []float32
		max            float64
		norm           float32
		clipped        []float32
		unchangedScale bool
	}{
		{"below", []float32{3, 4}, 10, 5, []float32{3, 4}, true},
		{"above", []float32{3, 4}, 1, 5, []float32{0.6, 0.8}, false},
		{"zeros", []float32{0, 0}, 1, 0, []float32{0, 0}, true},
		{"no clipping", []float32{3, 4}, 0, 5, []float32{3, 4}, true},
		{"infinite", []float32{inf, 4}, 1, inf, []float32{nan, 0}, true},
		{"NaN", []float32{nan, 4}, 1, nan, []float32{nan, nan}, true},
		{"overflow", []float32{3e38, 3e38}, 1, inf, []float32{0, 0}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			params := gradParams(tc.grads)
			got := ClipGradNorm(params, tc.max)
			sameBits(t, "norm", []float32{got}, []float32{tc.norm})
			if tc.unchangedScale {
				sameBits(t, "gradients", params[0].Grad, tc.clipped)
				return
			}
			for i, want := range tc.clipped {
				if math.Abs(float64(params[0].Grad[i]-want)) > 1e-6 {
					t.Errorf("gradient %d is %v, want about %v", i, params[0].Grad[i], want)
				}
			}
		})
	}
}

func TestAddSquareRoundsOnce(t *testing.T) {
	for _, tc := range []struct{ sum, v, want float32 }{
		{1, 0x1p-12, 1},                        // a tie goes to even
		{1 + 0x1p-23, 0x1p-12, 1 + 0x1p-22},    // the other way
		{1, 0x1.000002p-12, 1 + 0x1p-23},       // just above a tie
		{0x1p60, 0x1.000002p18, 0x1.000002p60}, // above a tie by less than float64 holds
		{0x1p60, 0x1.fffffep17, 0x1p60},        // below
		{0, 0x1p-75, 0},                        // half the smallest number
		{0, 0x1.000002p-75, 0x1p-149},          // above it
		{0, 3, 9},                              //
		{float32(math.Inf(1)), 1, float32(math.Inf(1))},
		{1, 3e30, float32(math.Inf(1))},
		{float32(math.NaN()), 1, float32(math.NaN())},
	} {
		sameBits(t, "sum", []float32{addSquare(tc.sum, tc.v)}, []float32{tc.want})
	}
}

func BenchmarkGradNorm(b *testing.B) {
	const n = 1 << 18
	p := testParam("w", n)
	setGrads([]*Param{p}, 1)
	params := []*Param{p}
	for b.Loop() {
		GradNorm(params)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
}
