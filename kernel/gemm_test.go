package kernel

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"rejoin/tensor"
)

func random(r *rand.Rand, n int) []float32 {
	x := tensor.AlignedFloat32(n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// gemm64 is Gemm by its definition, in float64.
func gemm64(transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) []float64 {
	out := make([]float64, m*n)
	at := func(x []float32, trans bool, i, j, ld int) float64 {
		if trans {
			i, j = j, i
		}
		return float64(x[i*ld+j])
	}
	for i := range m {
		for j := range n {
			sum := 0.0
			for l := range k {
				sum += at(a, transA, i, l, lda) * at(b, transB, l, j, ldb)
			}
			out[i*n+j] = float64(alpha) * sum
			if beta != 0 {
				out[i*n+j] += float64(beta) * float64(c[i*ldc+j])
			}
		}
	}
	return out
}

// backends are the BLAS of this process and the one that is always there.
func backends(t *testing.T) map[string]gemmFunc {
	t.Helper()
	if err := Load(); err != nil {
		t.Fatal(err)
	}
	return map[string]gemmFunc{"gonum": gonumGemm, BLAS(): Gemm}
}

func TestGemmAgainstDefinition(t *testing.T) {
	for name, gemm := range backends(t) {
		for _, dims := range [][3]int{{1, 1, 1}, {16, 64, 10}, {16, 1, 64}, {7, 13, 5}, {1, 33, 17}, {130, 140, 70}, {3, 2, 300}} {
			for trans := range 4 {
				for _, scale := range [][2]float32{{1, 0}, {1, 1}, {0.5, -2}} {
					transA, transB := trans&1 != 0, trans&2 != 0
					t.Run(fmt.Sprintf("%s/%v/%v%v/%v", name, dims, transA, transB, scale), func(t *testing.T) {
						testGemm(t, gemm, dims, transA, transB, scale[0], scale[1])
					})
				}
			}
		}
	}
}

func testGemm(t *testing.T, gemm gemmFunc, dims [3]int, transA, transB bool, alpha, beta float32) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	m, n, k := dims[0], dims[1], dims[2]
	lda, ldb, ldc := k+3, n+1, n+2
	if transA {
		lda = m + 3
	}
	if transB {
		ldb = k + 1
	}
	a, b, c := random(r, (m+k)*(lda+1)), random(r, (n+k)*(ldb+1)), random(r, m*ldc)
	if beta == 0 {
		for i := range c {
			c[i] = float32(math.NaN())
		}
	}
	c0 := append([]float32(nil), c...)
	want := gemm64(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
	gemm(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
	for i := range m {
		for j := range n {
			got, w := float64(c[i*ldc+j]), want[i*n+j]
			if !(math.Abs(got-w) <= 2e-6*math.Sqrt(float64(k))*4) {
				t.Fatalf("C[%d][%d] is %v, want %v", i, j, got, w)
			}
		}
		sameBits(t, "between the rows of C", c[i*ldc+n:(i+1)*ldc], c0[i*ldc+n:(i+1)*ldc])
	}
}

// The same numbers give the same bits wherever they lie in memory.
func TestGemmDoesNotDependOnAlignment(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const m, n, k = 19, 37, 53
	a, b := random(r, m*k), random(r, n*k)
	shifted := func(x []float32, by int) []float32 {
		y := tensor.AlignedFloat32(len(x) + by)[by:]
		copy(y, x)
		return y
	}
	for name, gemm := range backends(t) {
		for trans := range 4 {
			transA, transB := trans&1 != 0, trans&2 != 0
			lda, ldb := k, n
			if transA {
				lda = m
			}
			if transB {
				ldb = k
			}
			var want []float32
			for shift := range 16 {
				c := tensor.AlignedFloat32(m*n + shift)[shift:]
				gemm(transA, transB, m, n, k, 1, shifted(a, shift), lda, shifted(b, (5*shift)%16), ldb, 0, c, n)
				if shift == 0 {
					want = c
				}
				sameBits(t, fmt.Sprintf("%s, transposed %v %v, shifted by %d", name, transA, transB, shift), c, want)
			}
		}
	}
}

func TestGemmEmptyAndZeroInner(t *testing.T) {
	Gemm(false, false, 0, 3, 2, 1, nil, 2, make([]float32, 6), 3, 0, nil, 3)
	c := []float32{1, 2, float32(math.NaN())}
	Gemm(false, false, 1, 2, 0, 1, nil, 1, nil, 2, 3, c, 2)
	sameBits(t, "beta 3", c[:2], []float32{3, 6})
	Gemm(false, false, 1, 3, 0, 1, nil, 1, nil, 3, 0, c, 3)
	sameBits(t, "beta 0", c, []float32{0, 0, 0})
}

func TestGemmRefusesShortSlices(t *testing.T) {
	for i, call := range []func(x []float32){
		func(x []float32) { Gemm(false, false, 2, 2, 2, 1, x[:3], 2, x, 2, 0, x, 2) },
		func(x []float32) { Gemm(false, false, 2, 2, 2, 1, x, 2, x[:3], 2, 0, x, 2) },
		func(x []float32) { Gemm(false, false, 2, 2, 2, 1, x, 2, x, 2, 0, x[:3], 2) },
		func(x []float32) { Gemm(false, false, 2, 2, 2, 1, x, 1, x, 2, 0, x, 2) },
		func(x []float32) { Gemm(false, false, -1, 2, 2, 1, x, 2, x, 2, 0, x, 2) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, "kernel: Gemm") {
					t.Errorf("call %d: panic %q", i, text)
				}
			}()
			call(make([]float32, 4))
		}()
	}
}

func TestChooseBLAS(t *testing.T) {
	if name, gemm, err := chooseBLAS("gonum"); err != nil || name != "gonum" || gemm == nil {
		t.Errorf("gonum: %q, %v", name, err)
	}
	if name, gemm, err := chooseBLAS(""); err != nil || name == "" || gemm == nil {
		t.Errorf("unforced: %q, %v", name, err)
	}
	notALibrary := t.TempDir() + "/libblas.so"
	if err := os.WriteFile(notALibrary, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, forced := range []string{"netlib", "/nonexistent/libopenblas.so", notALibrary} {
		_, _, err := chooseBLAS(forced)
		var fe *ForcedError
		if !errors.As(err, &fe) || fe.Env != EnvBLAS || fe.Value != forced || !strings.Contains(err.Error(), "unset "+EnvBLAS) {
			t.Errorf("%s: %v", forced, err)
		}
	}
}

func TestChooseLevel(t *testing.T) {
	for _, tc := range []struct {
		forced string
		have   bool
		avx2   bool
		fails  bool
	}{
		{"", true, true, false},
		{"", false, false, false},
		{"generic", true, false, false},
		{"avx2", true, true, false},
		{"avx2", false, false, true},
		{"sse9", true, false, true},
	} {
		avx2, err := chooseLevel(tc.forced, tc.have)
		var fe *ForcedError
		if avx2 != tc.avx2 || errors.As(err, &fe) != tc.fails {
			t.Errorf("%q, have %v: %v, %v", tc.forced, tc.have, avx2, err)
		}
	}
}

func TestForcedLevelIsUsed(t *testing.T) {
	want := os.Getenv(EnvKernel)
	if want == "" {
		want = map[bool]string{true: "avx2", false: "generic"}[hasAVX2]
	}
	if l := Level(); l != want {
		t.Errorf("level %s, want %s", l, want)
	}
}
