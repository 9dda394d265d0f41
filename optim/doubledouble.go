package optim

import "math"

// doubleDouble is the unevaluated sum hi + lo with |lo| at most half a unit in
// the last place of hi: about 106 bits. Sums and products follow Dekker, "A
// floating-point technique for extending the available precision", 1971, with
// a fused multiply-add for the product's error; the relative error of each is
// a few times 2^-106.
type doubleDouble struct{ hi, lo float64 }

// twoSum is a + b exactly.
func twoSum(a, b float64) doubleDouble {
	s := a + b
	t := s - a
	return doubleDouble{s, (a - (s - t)) + (b - t)}
}

// fastTwoSum is a + b exactly, for |a| ≥ |b|.
func fastTwoSum(a, b float64) doubleDouble {
	s := a + b
	return doubleDouble{s, b - (s - a)}
}

// twoProduct is a * b exactly.
func twoProduct(a, b float64) doubleDouble {
	p := float64(a * b)
	return doubleDouble{p, math.FMA(a, b, -p)}
}

func (x doubleDouble) neg() doubleDouble { return doubleDouble{-x.hi, -x.lo} }

func (x doubleDouble) add(y doubleDouble) doubleDouble {
	s, t := twoSum(x.hi, y.hi), twoSum(x.lo, y.lo)
	s = fastTwoSum(s.hi, s.lo+t.hi)
	return fastTwoSum(s.hi, s.lo+t.lo)
}

func (x doubleDouble) mul(y doubleDouble) doubleDouble {
	p := twoProduct(x.hi, y.hi)
	cross := math.FMA(x.hi, y.lo, float64(x.lo*y.hi))
	return fastTwoSum(p.hi, p.lo+cross)
}

// div divides by a float64.
func (x doubleDouble) div(d float64) doubleDouble {
	q := x.hi / d
	rest := math.FMA(-q, d, x.hi) + x.lo
	return fastTwoSum(q, rest/d)
}

// power is b raised to n, rounded correctly but for ties closer than about
// 2^-95, for finite b ≥ 0 and n ≥ 0. C's pow, which Python uses, errs by at most a
// hair more than half a unit in the last place; math.Pow by more.
func power(b, n float64) float64 {
	if n != math.Trunc(n) || n > 1<<53 {
		return math.Pow(b, n) // no step count is such a number
	}
	result, square := doubleDouble{1, 0}, doubleDouble{b, 0}
	for e := uint64(n); e != 0; e >>= 1 {
		if e&1 != 0 {
			result = result.mul(square)
		}
		square = square.mul(square)
	}
	if math.IsNaN(result.hi) { // out of float64's range
		return math.Pow(b, n)
	}
	return result.hi
}

// pow is b raised to e, rounded correctly but for ties closer than about 2^-95,
// for finite b and e ≥ 0. C's pow, which Python uses, is nearly as good.
func pow(b, e float64) float64 {
	switch {
	case e == math.Trunc(e) && e <= 1<<53:
		return power(b, e)
	case b == 0 || b == 1:
		return b
	}
	x := logarithm(b).mul(doubleDouble{e, 0})
	if math.Abs(x.hi) > 700 {
		return math.Pow(b, e) // at the edge of what float64 holds
	}
	return x.exp().hi
}

// logarithm is that of b > 0: one step of Newton's from the float64 one.
func logarithm(b float64) doubleDouble {
	first := math.Log(b)
	rest := doubleDouble{-first, 0}.exp().mul(doubleDouble{b, 0}).add(doubleDouble{-1, 0})
	return doubleDouble{first, 0}.add(rest).add(doubleDouble{-rest.hi * rest.hi / 2, 0})
}

// ln2 is log(2) in three pieces.
var ln2 = [3]float64{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56, 0x1.7b57a079a1934p-111}

// exp is e raised to x, |x| ≤ 710.
func (x doubleDouble) exp() doubleDouble {
	const halvings, terms = 6, 16 // (ln2/2^7)^17/17! is below 2^-160
	k := math.RoundToEven(x.hi / math.Ln2)
	r := x
	for _, piece := range ln2 {
		r = r.add(twoProduct(-k, piece))
	}
	r = doubleDouble{math.Ldexp(r.hi, -halvings), math.Ldexp(r.lo, -halvings)}
	sum, term := doubleDouble{1, 0}, doubleDouble{1, 0}
	for n := range terms {
		term = term.mul(r).div(float64(n + 1))
		sum = sum.add(term)
	}
	for range halvings {
		sum = sum.mul(sum)
	}
	return doubleDouble{math.Ldexp(sum.hi, int(k)), math.Ldexp(sum.lo, int(k))}
}

// halfPi is π/2 in four pieces of 53 bits.
var halfPi = [4]float64{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110, 0x1.4cf98e804177dp-164}

// cosine is the correctly rounded cosine of x, for |x| < 2^30; beyond, it is
// math.Cos. The C library's cosine differs from it in the last place for about
// one argument in a thousand, math.Cos for many more.
func cosine(x float64) float64 {
	if !(math.Abs(x) < 1<<30) {
		return math.Cos(x)
	}
	k := math.RoundToEven(x * (2 / math.Pi))
	r := doubleDouble{x, 0}
	for _, piece := range halfPi {
		r = r.add(twoProduct(-k, piece))
	}
	var y doubleDouble
	switch int64(k) & 3 {
	case 0:
		y = taylor(r, doubleDouble{1, 0}, 0)
	case 1:
		y = taylor(r, r, 1).neg()
	case 2:
		y = taylor(r, doubleDouble{1, 0}, 0).neg()
	case 3:
		y = taylor(r, r, 1)
	}
	return y.hi
}

// taylor sums the Taylor series of sine or cosine at r, |r| ≤ π/4 and a little,
// from its first term, r^n/n!.
func taylor(r, first doubleDouble, n float64) doubleDouble {
	const terms = 15 // (π/4)^30/30! is below 2^-118
	minusSquare := r.mul(r).neg()
	sum, term := first, first
	for range terms {
		term = term.mul(minusSquare).div((n + 1) * (n + 2))
		n += 2
		sum = sum.add(term)
	}
	return sum
}
