package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestExp32(t *testing.T) {
	worst := 0.0
	check := func(x float32) {
		got, want := exp32(x), math.Exp(float64(x))
		if x < expFlush {
			if got != 0 {
				t.Fatalf("exp(%v) is %v, want 0", x, got)
			}
			return
		}
		ulp := float64(math.Nextafter32(float32(want), 2) - float32(want))
		worst = max(worst, math.Abs(float64(got)-want)/ulp)
	}
	for x := float32(-90); x <= 0; x += 0.000917 {
		check(x)
	}
	for _, x := range []float32{0, -1e-30, -1e-7, -0.34657359, -0.3465736, -87.33654, -87.33655, -103, float32(math.Inf(-1)), -math.MaxFloat32} {
		check(x)
	}
	if worst > 2 {
		t.Errorf("off by up to %v units in the last place", worst)
	}
	if exp32(0) != 1 {
		t.Errorf("exp(0) is %v", exp32(0))
	}
	if v := exp32(float32(math.NaN())); v == v {
		t.Errorf("exp(NaN) is %v", v)
	}
}

func TestReductionsAgainstFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, n := range []int{0, 1, 7, 8, 100, 4099, chunk + 3} {
		x, y := random(r, n), random(r, n)
		squares, diffs, exps := 0.0, 0.0, 0.0
		top := RowMax(x)
		for i := range x {
			squares += float64(x[i]) * float64(x[i])
			diffs += (float64(x[i]) - float64(y[i])) * (float64(x[i]) - float64(y[i]))
			exps += math.Exp(float64(x[i]) - float64(top))
			if x[i] > top {
				t.Fatalf("RowMax %v is less than %v", top, x[i])
			}
		}
		for _, s := range []struct {
			name            string
			got, want, rtol float64
		}{
			{"SumSquares", SumSquares(x), squares, 1e-13},
			{"SumSquaredDiff", SumSquaredDiff(x, y), diffs, 1e-6},
			{"SumExp", float64(SumExp(x, top)), exps, 1e-5},
		} {
			if math.Abs(s.got-s.want) > s.rtol*s.want {
				t.Errorf("%s of %d elements is %v, want %v", s.name, n, s.got, s.want)
			}
		}
	}
}

func TestAddColumnSums(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, dims := range [][2]int{{0, 4}, {1, 1}, {16, 3}, {17, 10}, {256, 8}, {1000, 33}, {5000, 1}} {
		rows, cols := dims[0], dims[1]
		x, dst := random(r, rows*cols), random(r, cols)
		want := make([]float64, cols)
		for c := range want {
			want[c] = float64(dst[c])
			for i := range rows {
				want[c] += float64(x[i*cols+c])
			}
		}
		AddColumnSums(dst, x)
		for c := range want {
			if math.Abs(float64(dst[c])-want[c]) > 1e-6*math.Sqrt(float64(rows+1))*2 {
				t.Errorf("%v: column %d is %v, want %v", dims, c, dst[c], want[c])
			}
		}
	}
}

// A cascade keeps what a plain running sum loses.
func TestAddColumnSumsIsACascade(t *testing.T) {
	x := make([]float32, 1<<16)
	for i := range x {
		x[i] = 0.1
	}
	dst := []float32{0}
	AddColumnSums(dst, x)
	want := float64(float32(0.1)) * float64(len(x))
	if rel := math.Abs(float64(dst[0])-want) / want; rel > 1e-6 {
		t.Errorf("sum is %v, want %v: off by %v", dst[0], want, rel)
	}
}

func TestElementwise(t *testing.T) {
	nan, neg0 := float32(math.NaN()), float32(math.Copysign(0, -1))
	x := []float32{-1, 2, nan, neg0, 0, -3, 4, 5, -6}
	y := make([]float32, len(x))
	ReLU(y, x)
	sameBits(t, "ReLU", y, []float32{0, 2, nan, neg0, 0, 0, 4, 5, 0})
	dx := make([]float32, len(x))
	ReLUBackward(dx, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}, y)
	sameBits(t, "ReLUBackward", dx, []float32{0, 2, 3, 0, 0, 0, 7, 8, 0})
	MSEGrad(dx, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}, []float32{0, 0, 0, 8, 8, 8, 0, 0, 0}, 0.5, 2)
	sameBits(t, "MSEGrad", dx, []float32{1, 2, 3, -4, -3, -2, 7, 8, 9})
	Axpy(dx, 2, []float32{1, 1, 1, 1, 1, 1, 1, 1, 1})
	sameBits(t, "Axpy", dx, []float32{3, 4, 5, -2, -1, 0, 9, 10, 11})
	Scale(dx, -1)
	sameBits(t, "Scale", dx, []float32{-3, -4, -5, 2, 1, neg0, -9, -10, -11})
	rows := make([]float32, 15)
	FillRows(rows, []float32{1, 2, 3})
	sameBits(t, "FillRows", rows, []float32{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3})
}

// Whatever NaN goes in, from either side, the same one comes out.
func TestAddScaledMakesOneNaN(t *testing.T) {
	const n = 21
	x, y, dst := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], y[i] = float32(i), 0.5
	}
	x[1], y[2] = math.Float32frombits(0xffc12345), math.Float32frombits(0x7f800001)
	x[9], y[9] = math.Float32frombits(0x7fffffff), math.Float32frombits(0xffc00000)
	x[20], y[20] = float32(math.Inf(1)), float32(math.Inf(-1))
	for _, avx2 := range []bool{false, hasAVX2} {
		atLevel(avx2, func() { AddScaled(dst, x, y, 3) })
		for i, v := range dst {
			want := math.Float32bits(float32(i) + 1.5)
			if i == 1 || i == 2 || i == 9 || i == 20 {
				want = 0x7fc00000
			}
			if got := math.Float32bits(v); got != want {
				t.Errorf("avx2 %v, element %d: %08x, want %08x", avx2, i, got, want)
			}
		}
	}
}

func TestMismatchedLengthsPanic(t *testing.T) {
	two, three := make([]float32, 2), make([]float32, 3)
	for name, call := range map[string]func(){
		"ReLU":           func() { ReLU(two, three) },
		"ReLUBackward":   func() { ReLUBackward(two, two, three) },
		"Add":            func() { Add(two, three) },
		"AddScaled":      func() { AddScaled(three, three, two, 1) },
		"Axpy":           func() { Axpy(two, 1, three) },
		"MSEGrad":        func() { MSEGrad(two, three, two, 1, 1) },
		"SumSquaredDiff": func() { SumSquaredDiff(two, three) },
		"SoftmaxGrad":    func() { SoftmaxGrad(two, three, 0, 0, 1) },
		"AddColumnSums":  func() { AddColumnSums(two, three) },
		"FillRows":       func() { FillRows(three, two) },
		"FillRows empty": func() { FillRows(three, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}
