package rng

import "math"

// log1p is the formula of fdlibm's s_log1p.c, which glibc evaluates too, in
// another order: 7 results in 10,000 differ, by one unit in the last place.
func log1p(x float64) float64 { return math.Log1p(x) }

// pair is the unevaluated sum hi + lo, with |lo| at most half a unit in the last
// place of hi: about 106 bits. The operations are Dekker's, with a fused
// multiply-add for the exact product (Numerische Mathematik 18, 1971).
type pair struct{ hi, lo float64 }

// quickSum is a+b, exactly, for |a| ≥ |b| or a = 0.
func quickSum(a, b float64) pair {
	s := a + b
	return pair{s, b - (s - a)}
}

func (p pair) add(q pair) pair {
	s := p.hi + q.hi
	v := s - p.hi
	e := (p.hi - (s - v)) + (q.hi - v)
	return quickSum(s, e+(p.lo+q.lo))
}

func (p pair) mul(q pair) pair {
	h := float64(p.hi * q.hi)
	e := math.FMA(p.hi, q.hi, -h)
	return quickSum(h, math.FMA(p.hi, q.lo, math.FMA(p.lo, q.hi, e)))
}

func (p pair) div(d float64) pair {
	q := p.hi / d
	return quickSum(q, (math.FMA(-q, d, p.hi)+p.lo)/d)
}

// π/2 as the sum of three float64.
const (
	halfPiA = 0x1.921fb54442d18p+0
	halfPiB = 0x1.1a62633145c07p-54
	halfPiC = -0x1.f1976b7ed8fbcp-110
)

// sincos is the correctly rounded sine and cosine of x in [0, 2π]. math.Sincos
// differs from the C library's in one result of four.
func sincos(x float64) (sin, cos float64) {
	quarter := math.Round(x / (math.Pi / 2))
	r := pair{hi: x}
	for _, part := range [...]float64{halfPiA, halfPiB, halfPiC} {
		p := float64(quarter * part)
		r = r.add(pair{-p, -math.FMA(quarter, part, -p)})
	}
	z := r.mul(r)
	s := r.mul(alternating(z, 2)).hi
	c := alternating(z, 1).hi
	switch int(quarter) & 3 {
	case 1:
		s, c = c, -s
	case 2:
		s, c = -s, -c
	case 3:
		s, c = -c, s
	}
	return s, c
}

// alternating sums the Taylor series 1 - z/(k(k+1)) + z²/(k(k+1)(k+2)(k+3)) …
// of cos √z (k = 1) or of sin √z / √z (k = 2), for z ≤ π²/16, to 2⁻¹⁰⁶.
func alternating(z pair, k float64) pair {
	const terms = 14
	sum := pair{hi: 1}
	for i := terms; i >= 1; i-- {
		n := k + 2*float64(i-1)
		t := sum.mul(z).div(n * (n + 1))
		sum = pair{hi: 1}.add(pair{-t.hi, -t.lo})
	}
	return sum
}
