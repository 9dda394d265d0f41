package rng

// Float32 draws torch.rand's float32: one word, its low 24 bits over 2²⁴.
func (g *Generator) Float32() float32 {
	return float32(g.Uint32()&(1<<24-1)) * 0x1p-24
}

// Float64 draws torch.rand's float64: two words, their low 53 bits over 2⁵³.
func (g *Generator) Float64() float64 {
	return float64(g.Uint64()&(1<<53-1)) * 0x1p-53
}

// UniformFloat32 fills dst as Tensor.uniform_(low, high) fills a float32 tensor,
// one word an element, in [low, high). torch wants low ≤ high.
// Source: uniform_kernel in aten/src/ATen/native/cpu/DistributionTemplates.h,
// torch 2.14, compiled with FMA; older versions lack the last rule, that a value
// which rounds up to high becomes low.
func (g *Generator) UniformFloat32(dst []float32, low, high float32) {
	width := high - low
	for i := range dst {
		v := fma32(g.Float32(), width, low)
		if v == high {
			v = low
		}
		dst[i] = v
	}
}

// BernoulliFloat64 is true with probability p, as torch.bernoulli decides for a
// float64 probability: it draws two words.
func (g *Generator) BernoulliFloat64(p float64) bool { return g.Float64() < p }

// BernoulliFloat32 is true with probability p, as torch.bernoulli decides for a
// float32 probability: it draws one word.
func (g *Generator) BernoulliFloat32(p float32) bool { return g.Float32() < p }
