package optim

import (
	"math"

	"rejoin/kernel"
)

// vector is the number of elements at a time that kernel.AdamFused, and torch's
// fused kernel on AVX2, treat alike; the rest of a parameter is its tail.
const vector = 8

// updater makes the step of one parameter after another. It keeps the last bias
// corrections, which the parameters of a group nearly always share.
type updater struct {
	step         float32
	beta1, beta2 float64
	bc1, bc2     float64
	scratch      []float32 // AMSGrad's
}

func (u *updater) update(p *parameter, g *group) {
	c := u.coefficients(p.step, g)
	switch {
	case g.options.AMSGrad:
		u.amsgrad(p, &c, g.options.Implementation == Fused)
	case g.options.Implementation == Fused:
		kernel.AdamFused(p.Values, p.Grad, p.expAvg, p.expAvgSq, &c)
	default:
		unfused(p.Values, p.Grad, p.expAvg, p.expAvgSq, &c)
	}
}

// coefficients rounds a step's scalars to float32, as torch does.
func (u *updater) coefficients(step float32, g *group) kernel.AdamCoeffs {
	o := &g.options
	if u.step != step || u.beta1 != o.Beta1 || u.beta2 != o.Beta2 {
		u.step, u.beta1, u.beta2 = step, o.Beta1, o.Beta2
		u.bc1 = 1 - power(o.Beta1, float64(step))
		u.bc2 = 1 - power(o.Beta2, float64(step))
	}
	c := kernel.AdamCoeffs{
		DecayFactor:   1,
		OneMinusBeta1: float32(1 - o.Beta1),
		Beta2:         float32(o.Beta2),
		OneMinusBeta2: float32(1 - o.Beta2),
		SqrtBC2:       float32(math.Sqrt(u.bc2)),
		Eps:           float32(o.Eps),
		NegStepSize:   float32(-(o.LR / u.bc1)),
		Maximize:      o.Maximize,
	}
	// The conversion keeps the compiler from fusing the product into the difference.
	if decay := float64(o.LR * o.WeightDecay); g.decoupled {
		c.DecayFactor = float32(1 - decay)
	} else {
		c.L2 = float32(o.WeightDecay)
	}
	return c
}

// unfused is torch's single-tensor loop, and its foreach loop: the arithmetic
// of the fused kernel's whole vectors for every element. The tail is padded to
// a whole vector.
func unfused(p, g, m, v []float32, c *kernel.AdamCoeffs) {
	body := len(p) - len(p)%vector
	kernel.AdamFused(p[:body], g[:body], m[:body], v[:body], c)
	if body == len(p) {
		return
	}
	var tp, tg, tm, tv [vector]float32
	copy(tp[:], p[body:])
	copy(tg[:], g[body:])
	copy(tm[:], m[body:])
	copy(tv[:], v[body:])
	kernel.AdamFused(tp[:], tg[:], tm[:], tv[:], c)
	copy(p[body:], tp[:])
	copy(m[body:], tm[:])
	copy(v[body:], tv[:])
}

// amsgrad is a step that divides by the largest exp_avg_sq so far. The moments
// are the kernel's; the parameter that the kernel computes beside them is not
// wanted and goes to scratch memory.
func (u *updater) amsgrad(p *parameter, c *kernel.AdamCoeffs, fused bool) {
	if len(u.scratch) < len(p.Values) {
		u.scratch = make([]float32, len(p.Values))
	}
	unwanted := u.scratch[:len(p.Values)]
	copy(unwanted, p.Values)
	if fused {
		kernel.AdamFused(unwanted, p.Grad, p.expAvg, p.expAvgSq, c)
	} else {
		unfused(unwanted, p.Grad, p.expAvg, p.expAvgSq, c)
	}
	for i, v := range p.expAvgSq {
		largest := max(p.maxExpAvgSq[i], v) // NaN if either is, as torch.maximum
		p.maxExpAvgSq[i] = largest
		root := float32(math.Sqrt(float64(largest)))
		denominator := float32(root/c.SqrtBC2) + c.Eps
		value := float32(p.Values[i] * c.DecayFactor)
		p.Values[i] = value + float32(c.NegStepSize*p.expAvg[i])/denominator
	}
}
