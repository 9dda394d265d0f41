package kernel

import "math"

// vectorArgs lays the coefficients out as the assembly takes them: the sign mask
// of maximize, DecayFactor, L2, the weight of (g-m), a mask that chooses m rather
// than g as what it is added to, then the others in the order of the struct.
func (c *AdamCoeffs) vectorArgs() [10]float32 {
	var sign float32
	if c.Maximize {
		sign = float32(math.Copysign(0, -1))
	}
	weight, useM := c.OneMinusBeta1, math.Float32frombits(math.MaxUint32)
	if weight >= 0.5 {
		weight, useM = weight-1, 0
	}
	return [10]float32{sign, c.DecayFactor, c.L2, weight, useM, c.Beta2, c.OneMinusBeta2, c.SqrtBC2, c.Eps, c.NegStepSize}
}
