package rng

import (
	"math"
	"math/big"
	"slices"
	"testing"
)

// roundedFMA is x*y + z rounded once, by big.Float.
func roundedFMA(x, y, z float32) float32 {
	exact := func(v float32) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(float64(v)) }
	sum := new(big.Float).SetPrec(2000).Mul(exact(x), exact(y))
	sum.Add(sum, exact(z))
	v, _ := sum.Float32()
	return v
}

func TestFMA32RoundsOnce(t *testing.T) {
	g := New(1)
	random := func() float32 { // any finite float32
		for {
			if v := math.Float32frombits(g.Uint32()); !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) {
				return v
			}
		}
	}
	for range 20000 {
		x, y, z := random(), random(), random()
		if g.Uint32()&1 == 0 { // near cancellation
			z = -x * y
			z += float32(g.Uint32()%5) * z * 0x1p-24
		}
		if !(math.Abs(float64(z)) <= math.MaxFloat32) {
			continue // the product overflowed
		}
		got, want := fma32(x, y, z), roundedFMA(x, y, z)
		if got != want {
			t.Fatalf("fma(%g, %g, %g) = %g, expected %g", x, y, z, got, want)
		}
	}
}

// The sum lies so close to the middle of two float32 that float64 takes it for
// the middle.
func TestFMA32NearTheMiddle(t *testing.T) {
	g := New(4)
	for range 20000 {
		z := 1 + g.Float32()
		sign := float32(1 - 2*int(g.Uint32()&1))
		x := sign * 0x1p-24 * (1 + 0x1p-20)
		for _, y := range []float32{1 - 0x1p-20, 1 - 0x1p-20 + 0x1p-24, 1 / (1 + 0x1p-20)} {
			for _, scale := range []float32{1, 0x1p-126, 0x1p-140} {
				got, want := fma32(x, y*scale, z*scale), roundedFMA(x, y*scale, z*scale)
				if got != want {
					t.Fatalf("fma(%g, %g, %g) = %g, expected %g", x, y*scale, z*scale, got, want)
				}
			}
		}
	}
}

func TestFMA32Special(t *testing.T) {
	inf := float32(math.Inf(1))
	// A case where rounding first to float64 gives the wrong neighbour.
	x, y, z := float32(1+0x1p-23), float32(1+0x1p-12), float32(0x1p-60)
	if got, want := fma32(x, y, z), roundedFMA(x, y, z); got != want {
		t.Errorf("double rounding: %g, expected %g", got, want)
	}
	cases := []struct{ x, y, z, want float32 }{
		{inf, 1, 1, inf},
		{1, 1, -inf, -inf},
		{math.MaxFloat32, 2, 0, inf},
		{0, 5, 0, 0},
		{1, 1, -1, 0},
		{2, 3, 4, 10},
	}
	for _, c := range cases {
		if got := fma32(c.x, c.y, c.z); got != c.want {
			t.Errorf("fma(%g, %g, %g) = %g, expected %g", c.x, c.y, c.z, got, c.want)
		}
	}
	if got := fma32(inf, 0, 1); !math.IsNaN(float64(got)) {
		t.Errorf("fma(inf, 0, 1) = %g, expected NaN", got)
	}
}

// bigSinCos sums the Taylor series of x, |x| ≤ 2π, with 300 bits.
func bigSinCos(x float64) (sin, cos float64) {
	const prec = 300
	term := new(big.Float).SetPrec(prec).SetInt64(1)
	sums := [2]*big.Float{new(big.Float).SetPrec(prec), new(big.Float).SetPrec(prec)} // cos, sin
	bx := new(big.Float).SetPrec(prec).SetFloat64(x)
	for n := range 120 {
		if n > 0 {
			term.Mul(term, bx)
			term.Quo(term, new(big.Float).SetPrec(prec).SetInt64(int64(n)))
		}
		if n%4 < 2 {
			sums[n%2].Add(sums[n%2], term)
		} else {
			sums[n%2].Sub(sums[n%2], term)
		}
	}
	sin, _ = sums[1].Float64()
	cos, _ = sums[0].Float64()
	return sin, cos
}

func TestSincosIsCorrectlyRounded(t *testing.T) {
	g := New(2)
	args := []float64{0, math.Pi / 4, math.Pi / 2, math.Pi, 3 * math.Pi / 2, 2 * math.Pi, 1e-300, 0x1p-53 * 2 * math.Pi}
	for range 2000 {
		args = append(args, 2*math.Pi*g.Float64())
	}
	for _, x := range args {
		s, c := sincos(x)
		if ws, wc := bigSinCos(x); s != ws || c != wc {
			t.Errorf("sincos(%g) = %g, %g, expected %g, %g", x, s, c, ws, wc)
		}
	}
}

func TestFloat32FunctionsAreClose(t *testing.T) {
	g := New(3)
	for range 20000 {
		u := 1 - g.Float32()
		got, want := float64(logFloat32(u)), math.Log(float64(u))
		if math.Abs(got-want) > 2e-7*max(1, math.Abs(want)) {
			t.Fatalf("log(%g) = %g, expected %g", u, got, want)
		}
		x := 2 * math.Pi * g.Float32()
		s, c := sincosFloat32(x)
		ws, wc := math.Sincos(float64(x))
		if math.Abs(float64(s)-ws) > 2e-7 || math.Abs(float64(c)-wc) > 2e-7 {
			t.Fatalf("sincos(%g) = %g, %g, expected %g, %g", x, s, c, ws, wc)
		}
	}
}

// The wide order must be a permutation; torch's own is compared in
// TestWidePermEqualsTorch, which needs 2 GB.
func TestPermWideSmall(t *testing.T) {
	for n := range 50 {
		g := New(uint64(n))
		p := g.permWide(n)
		after := New(uint64(n))
		for range 2 * n {
			after.Uint32()
		}
		if g.Uint32() != after.Uint32() {
			t.Errorf("n %d: it did not draw two words an element", n)
		}
		slices.Sort(p)
		for i, v := range p {
			if i != v {
				t.Fatalf("n %d: sorted %v", n, p)
			}
		}
	}
}
