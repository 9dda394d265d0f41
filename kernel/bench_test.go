package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkAdam(b *testing.B) {
	const n = 1 << 16
	r := rand.New(rand.NewPCG(1, 2))
	p, g, m, v := random(r, n), random(r, n), random(r, n), random(r, n)
	for i := range v {
		v[i] *= v[i]
	}
	c := &AdamCoeffs{DecayFactor: 0.99999, OneMinusBeta1: 0.1, Beta2: 0.999, OneMinusBeta2: 0.001, SqrtBC2: 0.5, Eps: 1e-8, NegStepSize: -1e-9}
	for b.Loop() {
		AdamFused(p, g, m, v, c)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/param")
}

func BenchmarkGemm(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range [][3]int{{16, 64, 10}, {64, 256, 512}, {256, 1024, 1024}} {
		m, n, k := d[0], d[1], d[2]
		x, w, y := random(r, m*k), random(r, n*k), random(r, m*n)
		b.Run(fmt.Sprintf("%dx%dx%d", m, n, k), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Gemm(false, true, m, n, k, 1, x, k, w, k, 0, y, n)
			}
			b.ReportMetric(2*float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

func BenchmarkSoftmaxGrad(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	x, dx := random(r, 1000), random(r, 1000)
	for b.Loop() {
		SoftmaxGrad(dx, x, 4, 1, 0.1)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x)), "ns/element")
}

func BenchmarkAddScaled(b *testing.B) {
	const n = 1 << 16
	r := rand.New(rand.NewPCG(1, 2))
	x, y := random(r, n), random(r, n)
	b.SetBytes(4 * n)
	for b.Loop() {
		AddScaled(y, x, y, 0.5)
	}
}
