package rng

import "math"

// The float32 logarithm, sine and cosine of torch's vectorised normal_: Cephes'
// logf, sinf and cosf (S. L. Moshier, netlib.org/cephes), evaluated with the
// fused multiply-adds into which the compiler contracts
// aten/src/ATen/native/cpu/avx_mathfun.h. The order of the roundings is the point.

const (
	sqrtHalf = 0.707106781186547524
	ln2Hi    = 0.693359375
	ln2Lo    = -2.12194440e-4
	fourOPi  = 1.27323954473516
	// π/4 in three parts.
	pio4A = 0.78515625
	pio4B = 2.4187564849853515625e-4
	pio4C = 3.77489497744594108e-8
)

// log(1+x)/x³ − …, the highest power first.
var logPoly = [...]float32{
	7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
	-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
}

// logFloat32 is the natural logarithm of a positive, normal x.
func logFloat32(x float32) float32 {
	bits := math.Float32bits(x)
	exp := float32(int32(bits>>23) - 126)
	m := math.Float32frombits(bits&^0x7f800000 | 0x3f000000) // in [½, 1)
	if m < sqrtHalf {
		exp--
		m += m - 1
	} else {
		m--
	}
	z := m * m
	y := logPoly[0]
	for _, c := range logPoly[1:] {
		y = fma32(y, m, c)
	}
	y *= m
	y = fma32(y, z, exp*ln2Lo)
	y = fma32(-z, 0.5, y)
	return fma32(exp, ln2Hi, m+y)
}

// sincosFloat32 is the sine and cosine of x ≥ 0, below 8192.
func sincosFloat32(x float32) (sin, cos float32) {
	octant := (int32(x*fourOPi) + 1) &^ 1
	k := float32(octant)
	x = fma32(k, -pio4A, x)
	x = fma32(k, -pio4B, x)
	x = fma32(k, -pio4C, x)
	z := x * x

	c := fma32(2.443315711809948e-5, z, -1.388731625493765e-3)
	c = fma32(c, z, 4.166664568298827e-2)
	c = fma32(c*z, z, -(z*0.5)) + 1
	s := fma32(-1.9515295891e-4, z, 8.3321608736e-3)
	s = fma32(s, z, -1.6666654611e-1)
	s = fma32(s*z, x, x)

	if octant&2 != 0 {
		s, c = c, s
	}
	if octant&4 != 0 {
		s = -s
	}
	if (octant-2)&4 == 0 {
		c = -c
	}
	return s, c
}
