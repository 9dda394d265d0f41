package kernel

import "math"

// fma32 is x*y+z in float32 with one rounding, as the FMA instruction gives it.
//
// The product of two float32 is exact in float64. The sum is rounded to odd
// there (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums:
// proved algorithms using rounding to odd", 2008), which makes the second
// rounding, to float32, correct: 53 bits are at least 24 + 2.
func fma32(x, y, z float32) float32 {
	p := float64(x) * float64(y)
	c := float64(z)
	s := p + c
	if math.IsInf(s, 0) || s != s {
		return float32(s)
	}
	// TwoSum: p + c == s + e exactly.
	b := s - p
	e := (p - (s - b)) + (c - b)
	if e == 0 {
		return float32(s)
	}
	u := math.Float64bits(s)
	if u&1 == 0 {
		if (e > 0) == (s > 0) {
			u++ // the exact sum is farther from zero than s
		} else {
			u--
		}
	}
	return float32(math.Float64frombits(u))
}

// sqrt32 is the correctly rounded float32 square root.
func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }
