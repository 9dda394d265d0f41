package rng

import "math"

// Box-Muller pairs are made 8 at a time.
const normalBlock = 16

// NormalFloat32 fills dst as Tensor.normal_(mean, std) fills a contiguous float32
// tensor. std must not be negative.
//
// From 16 elements on torch works in float32 with its own logarithm, sine and
// cosine, and this is bit for bit the same. Below, it works in float64 with the
// C library's functions and keeps the pair's second value for the next call: here
// the sine and cosine are correctly rounded, the logarithm is glibc's formula,
// and what glibc rounds otherwise can differ in the last place of that float64,
// which next to never reaches the float32.
// Source: normal_fill and normal_kernel in
// aten/src/ATen/native/cpu/DistributionTemplates.h, torch 2.14, compiled with
// AVX2 and FMA.
func (g *Generator) NormalFloat32(dst []float32, mean, std float64) {
	n := len(dst)
	if n < normalBlock {
		for i := range dst {
			dst[i] = float32(math.FMA(g.stdNormal(), std, mean))
		}
		return
	}
	g.fillFloat32(dst)
	for i := 0; i+normalBlock <= n; i += normalBlock {
		boxMuller16(dst[i:i+normalBlock], float32(mean), float32(std))
	}
	if n%normalBlock != 0 { // the last 16 are drawn again
		tail := dst[n-normalBlock:]
		g.fillFloat32(tail)
		boxMuller16(tail, float32(mean), float32(std))
	}
}

func (g *Generator) fillFloat32(dst []float32) {
	for i := range dst {
		dst[i] = g.Float32()
	}
}

// boxMuller16 turns 16 uniforms in [0, 1) into normals: element j and j+8 are a pair.
func boxMuller16(x []float32, mean, std float32) {
	const twoPi = float32(2 * math.Pi)
	for j := range normalBlock / 2 {
		radius := float32(math.Sqrt(float64(-2 * logFloat32(1-x[j]))))
		sin, cos := sincosFloat32(twoPi * x[j+8])
		x[j] = fma32(radius*cos, std, mean)
		x[j+8] = fma32(radius*sin, std, mean)
	}
}

// stdNormal draws one float64 of mean 0 and deviation 1: the cached one, or the
// first of a new pair, whose second is cached.
// Source: normal_distribution<double> in aten/src/ATen/core/DistributionsHelper.h.
func (g *Generator) stdNormal() float64 {
	if g.hasNormal {
		v := g.normal
		g.hasNormal, g.normal = false, 0
		return v
	}
	u1, u2 := g.Float64(), g.Float64()
	radius := math.Sqrt(-2 * log1p(-u2))
	sin, cos := sincos(float64(2 * math.Pi * u1))
	g.hasNormal, g.normal = true, radius*sin
	return radius * cos
}
