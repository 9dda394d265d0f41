package kernel

import "fmt"

// AdamCoeffs are the scalars of one Adam step, each rounded once to float32 from
// the float64 expression beside it, as torch does. lr, beta1, beta2, eps and
// weightDecay are float64; step counts from 1; bc1 = 1 - beta1**step and
// bc2 = 1 - beta2**step, both float64.
type AdamCoeffs struct {
	// DecayFactor is AdamW's decoupled decay, 1 - lr*weightDecay; 1 for none.
	DecayFactor float32
	// L2 is Adam's weightDecay, which is added to the gradient; 0 for none.
	L2 float32
	// OneMinusBeta1 is 1 - beta1.
	OneMinusBeta1 float32
	// Beta2 is beta2.
	Beta2 float32
	// OneMinusBeta2 is 1 - beta2.
	OneMinusBeta2 float32
	// SqrtBC2 is sqrt(bc2).
	SqrtBC2 float32
	// Eps is eps.
	Eps float32
	// NegStepSize is -(lr / bc1).
	NegStepSize float32
	// Maximize negates the gradient.
	Maximize bool
}

// adamVector is the number of elements that torch's fused kernel handles at a
// time where it runs on AVX2. The last len mod adamVector elements of a
// parameter go through its scalar loop, whose compiler contracts the second
// moment's products in another order.
const adamVector = 8

// AdamFused makes one Adam or AdamW step of one whole parameter tensor: p is
// the parameter, m its exp_avg and v its exp_avg_sq, all updated in place; g is
// the gradient and is only read.
//
//	p = p * DecayFactor                          if DecayFactor != 1
//	g = fma(p, L2, g)                            if L2 != 0
//	m = fma(w, g-m, m)                           w = OneMinusBeta1
//	v = fma(OneMinusBeta2*g, g, v*Beta2)         in whole vectors of 8
//	v = fma(v, Beta2, (OneMinusBeta2*g)*g)       in the last len mod 8 elements
//	p = p + (NegStepSize*m) / (sqrt(v)/SqrtBC2 + Eps)
//
// With w >= 0.5, m = fma(w-1, g-m, g) instead. This is the order of operations
// of torch 2.14's fused Adam (aten/src/ATen/native/cpu/FusedAdamKernel.cpp) on
// AVX2, and its bits. (Where torch runs on AVX-512 its tail is the last len mod 4
// elements; v differs by a rounding in those between.) Because of the tail, a
// parameter must be passed whole, not in pieces and not glued to the next one.
func AdamFused(p, g, m, v []float32, c *AdamCoeffs) {
	n := len(p)
	if len(g) != n || len(m) != n || len(v) != n {
		panic(fmt.Sprintf("kernel: AdamFused of lengths p %d, g %d, m %d, v %d", n, len(g), len(m), len(v)))
	}
	body := n - n%adamVector
	adamBody(p[:body], g[:body], m[:body], v[:body], c)
	for i := body; i < n; i++ {
		p[i], m[i], v[i] = adamElement(p[i], g[i], m[i], v[i], c, true)
	}
}

// adamBodyGeneric is the reference of adamBody, the whole vectors.
func adamBodyGeneric(p, g, m, v []float32, c *AdamCoeffs) {
	for i := range p {
		p[i], m[i], v[i] = adamElement(p[i], g[i], m[i], v[i], c, false)
	}
}

func adamElement(p, g, m, v float32, c *AdamCoeffs, tail bool) (newP, newM, newV float32) {
	if c.Maximize {
		g = -g
	}
	if c.DecayFactor != 1 {
		p = float32(p * c.DecayFactor) // the conversion keeps Go from fusing it with the sum below
	}
	if c.L2 != 0 {
		g = fma32(p, c.L2, g)
	}
	if w, d := c.OneMinusBeta1, g-m; !(w >= 0.5) {
		m = fma32(w, d, m)
	} else {
		m = fma32(w-1, d, g)
	}
	if tail {
		v = fma32(v, c.Beta2, float32(c.OneMinusBeta2*g)*g)
	} else {
		v = fma32(c.OneMinusBeta2*g, g, v*c.Beta2)
	}
	d := float32(sqrt32(v)/c.SqrtBC2) + c.Eps
	return p + float32(c.NegStepSize*m)/d, m, v
}
