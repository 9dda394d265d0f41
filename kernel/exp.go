package kernel

import "math"

// The constants of exp32: e**x is 2**n * e**r with n = round(x / ln 2); ln 2 is
// taken in two parts so that n*ln2Hi is exact, and e**r = 1 + r + r²*poly(r) for
// |r| <= ln(2)/2. The coefficients are those of the Cephes library's expf
// (S. Moshier, Cephes Mathematical Library 2.2, 1992). kernel/gen has the same.
const (
	expFlush   = -87.33654 // ln of the smallest normal float32
	log2e      = 1.44269504088896341
	roundMagic = 12582912 // 1.5 * 2**23: adding it rounds to a whole number
	ln2Hi      = 0.693359375
	ln2Lo      = -2.12194440e-4
)

var expPoly = [...]float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}

// exp32 is e**x for x <= 0, within 2 units in the last place; below expFlush it
// is 0, where the true value is subnormal, and slow to reckon with. NaN stays NaN.
// For x > 0 it is good up to 88.
func exp32(x float32) float32 {
	if x < expFlush {
		return 0
	}
	z := fma32(x, log2e, roundMagic)
	n := z - roundMagic
	r := fma32(n, -ln2Hi, x)
	r = fma32(n, -ln2Lo, r)
	p := expPoly[0]
	for _, a := range expPoly[1:] {
		p = fma32(p, r, a)
	}
	p = fma32(float32(r*r), p, r) + 1
	// The low bits of z are n.
	return p * math.Float32frombits(math.Float32bits(z)<<23+math.Float32bits(1))
}

func rowMaxGeneric(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}
