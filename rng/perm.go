package rng

import "math"

// From this many elements on, torch draws 64 bits for each: the remainder of a
// 32-bit word would be skewed.
const wideFrom = math.MaxUint32 / 20

// Perm is torch.randperm(n): a random order of 0 … n-1. It draws n-1 words, or
// from 214,748,364 elements on 2n. A negative n is a programmer's error.
// Source: randperm_cpu in aten/src/ATen/native/TensorFactories.cpp, torch 2.14.
func (g *Generator) Perm(n int) []int {
	if int64(n) >= wideFrom {
		return g.permWide(n)
	}
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	for i := 0; i < n-1; i++ {
		j := i + int(g.Uint32()%uint32(n-i))
		p[i], p[j] = p[j], p[i]
	}
	return p
}

// permWide builds the order from the inside out, drawing 64 bits an element.
func (g *Generator) permWide(n int) []int {
	p := make([]int, n)
	for i := range p {
		j := int(g.Uint64() % uint64(i+1))
		p[i] = p[j]
		p[j] = i
	}
	return p
}
