package optim

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

const bigPrecision = 400

func bigFloat(x float64) *big.Float { return new(big.Float).SetPrec(bigPrecision).SetFloat64(x) }

// bigCosine is the cosine of x by its Taylor series, halving the argument first
// and doubling the angle after; independent of the code under test.
func bigCosine(x float64) float64 {
	const halvings = 40
	y := bigFloat(x)
	y.SetMantExp(y, -halvings)
	square := new(big.Float).Mul(y, y)
	// versine-like s = 1 - cos, which keeps its precision when small
	s, term := bigFloat(0), bigFloat(-1)
	for n := int64(1); n <= 12; n++ {
		term.Mul(term, square)
		term.Quo(term, bigFloat(float64((2*n-1)*(2*n))))
		term.Neg(term)
		s.Add(s, term)
	}
	// 1 - cos 2a = 2(1 - cos a)(2 - (1 - cos a))
	for range halvings {
		t := new(big.Float).Sub(bigFloat(2), s)
		s.Mul(s, t)
		s.Mul(s, bigFloat(2))
	}
	c, _ := new(big.Float).Sub(bigFloat(1), s).Float64()
	return c
}

func TestCosineIsCorrectlyRounded(t *testing.T) {
	gen := rand.New(rand.NewPCG(1, 2))
	xs := []float64{0, 1, -1, math.Pi, math.Pi / 2, -math.Pi / 2, 3 * math.Pi / 2, math.Pi / 4, 1e-9, 1e9, 11 * math.Pi, 355, 5419351.0 / 1725033}
	for range 3000 {
		xs = append(xs, gen.Float64()*math.Pi, gen.Float64()*1000-500)
	}
	for k := 1; k < 300; k++ { // the hard ones: nearest to multiples of π/2
		xs = append(xs, float64(k)*(math.Pi/2), math.Nextafter(float64(k)*(math.Pi/2), 0))
	}
	for _, x := range xs {
		if got, want := cosine(x), bigCosine(x); got != want {
			t.Errorf("cosine(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestCosineBeyondItsRange(t *testing.T) {
	if got, want := cosine(0x1p40), math.Cos(0x1p40); got != want {
		t.Errorf("cosine(2^40) = %v, want %v", got, want)
	}
	if got := cosine(math.Inf(1)); !math.IsNaN(got) {
		t.Errorf("cosine(+Inf) = %v, want NaN", got)
	}
	if got := cosine(math.NaN()); !math.IsNaN(got) {
		t.Errorf("cosine(NaN) = %v, want NaN", got)
	}
}

func TestPowerIsCorrectlyRounded(t *testing.T) {
	for _, b := range []float64{0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 0.9999, 1 - 0x1p-53} {
		exact := bigFloat(1).SetPrec(4000)
		for n := range 500 {
			want, _ := exact.Float64()
			if got := power(b, float64(n)); got != want {
				t.Fatalf("power(%v, %d) = %v, want %v", b, n, got, want)
			}
			exact.Mul(exact, bigFloat(b))
		}
	}
	for _, tc := range []struct{ b, n, want float64 }{
		{0.9, 1 << 24, 0},
		{0.999, 1 << 20, 0},
		{0.25, 0.5, 0.5}, // not a step count, but no reason to fail
	} {
		if got := power(tc.b, tc.n); got != tc.want {
			t.Errorf("power(%v, %v) = %v, want %v", tc.b, tc.n, got, tc.want)
		}
	}
}

func BenchmarkCosine(b *testing.B) {
	x := 0.0
	for b.Loop() {
		x += cosine(x)
	}
}
