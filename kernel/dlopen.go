//go:build (linux || darwin) && (amd64 || arm64)

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// threadVariables tell BLAS libraries, as they start, how many threads to make.
// One is right: the ranks of a host share its cores. A variable that the user
// set is left as it is.
var threadVariables = []string{"OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"}

// openBLAS loads a shared library that has Fortran's sgemm_, and checks that it
// multiplies. A library stays loaded for the life of the process, even one that
// is then refused.
func openBLAS(file string) (string, gemmFunc, error) {
	restore := setUnset(threadVariables, "1")
	defer restore()
	handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return "", nil, fmt.Errorf("load %s: %w", file, err)
	}
	sgemm, err := purego.Dlsym(handle, "sgemm_")
	if err != nil {
		return "", nil, fmt.Errorf("%s has no sgemm_: %w", file, err)
	}
	if setThreads, err := purego.Dlsym(handle, "openblas_set_num_threads"); err == nil && os.Getenv("OPENBLAS_NUM_THREADS") == "1" {
		purego.SyscallN(setThreads, 1)
	}
	lib := &fortran{sgemm: sgemm}
	if err := selfTest(lib.gemm); err != nil {
		return "", nil, fmt.Errorf("%s: %w", file, err)
	}
	return describe(handle, file), lib.gemm, nil
}

// setUnset sets those of the variables that are not set, and returns what undoes it.
func setUnset(names []string, value string) (restore func()) {
	var set []string
	for _, name := range names {
		if _, ok := os.LookupEnv(name); !ok && os.Setenv(name, value) == nil {
			set = append(set, name)
		}
	}
	return func() {
		for _, name := range set {
			_ = os.Unsetenv(name) // cannot fail: the name was good enough to set
		}
	}
}

// describe is the library's own name and version, or its file's name.
func describe(handle uintptr, file string) string {
	if config, err := purego.Dlsym(handle, "openblas_get_config"); err == nil {
		text, _, _ := purego.SyscallN(config)
		return describeOpenBLAS(cString(text))
	}
	if version, err := purego.Dlsym(handle, "mkl_get_version_string"); err == nil {
		buf := make([]byte, 200)
		purego.SyscallN(version, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
		text, _, _ := strings.Cut(string(buf), "\x00")
		return "mkl " + strings.TrimSpace(text)
	}
	return filepath.Base(file)
}

// describeOpenBLAS shortens "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Zen MAX_THREADS=64".
// The core type is part of the name, because each sums in its own order.
func describeOpenBLAS(config string) string {
	words := strings.Fields(config)
	if len(words) < 2 {
		return "openblas"
	}
	core := ""
	for _, w := range words[2:] {
		if w != strings.ToUpper(w) { // options are in capitals, but so are some cores
			core = w
		}
	}
	if i := len(words) - 2; core == "" && strings.HasPrefix(words[len(words)-1], "MAX_THREADS") && i >= 2 {
		core = words[i]
	}
	if core == "" {
		return "openblas " + words[1]
	}
	return fmt.Sprintf("openblas %s (%s)", words[1], core)
}

// cString copies a NUL-terminated string in C's memory, of at most 1000 bytes.
func cString(p uintptr) string {
	if p == 0 {
		return ""
	}
	// The address is C's and does not move; this way of writing the conversion is
	// what vet accepts for one that came out of a call.
	base := *(**byte)(unsafe.Pointer(&p))
	var out []byte
	for i := range 1000 {
		c := *(*byte)(unsafe.Add(unsafe.Pointer(base), i))
		if c == 0 {
			break
		}
		out = append(out, c)
	}
	return string(out)
}

// fortran calls sgemm_, to which everything is passed by address. Integers are
// 64 bits wide: a library with 32-bit integers reads the lower half, which on
// these little-endian machines comes first.
type fortran struct {
	sgemm uintptr
	pool  sync.Pool // of *fortranArgs
}

type fortranArgs struct {
	m, n, k, lda, ldb, ldc int64
	alpha, beta            float32
}

var (
	noTrans   = [8]byte{'N'}
	withTrans = [8]byte{'T'}
)

func transArg(t bool) uintptr {
	if t {
		return uintptr(unsafe.Pointer(&withTrans))
	}
	return uintptr(unsafe.Pointer(&noTrans))
}

// gemm exchanges A and B, because Fortran sees a row-major matrix transposed:
// C' = op(B)' * op(A)'.
func (f *fortran) gemm(transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	const limit = 1<<31 - 1
	if max(m, n, k, lda, ldb, ldc) > limit {
		gonumGemm(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		return
	}
	args, ok := f.pool.Get().(*fortranArgs)
	if !ok {
		args = new(fortranArgs)
	}
	*args = fortranArgs{
		m: int64(m), n: int64(n), k: int64(k), lda: int64(lda), ldb: int64(ldb), ldc: int64(ldc),
		alpha: alpha, beta: beta,
	}
	purego.SyscallN(f.sgemm,
		transArg(transB), transArg(transA),
		uintptr(unsafe.Pointer(&args.n)), uintptr(unsafe.Pointer(&args.m)), uintptr(unsafe.Pointer(&args.k)),
		uintptr(unsafe.Pointer(&args.alpha)),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&args.ldb)),
		uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&args.lda)),
		uintptr(unsafe.Pointer(&args.beta)),
		uintptr(unsafe.Pointer(&c[0])), uintptr(unsafe.Pointer(&args.ldc)),
		1, 1, // Fortran's hidden lengths of the two strings
	)
	f.pool.Put(args)
}

// selfTest multiplies two small matrices of whole numbers, where every order of
// summation gives the same result.
func selfTest(gemm gemmFunc) error {
	a := []float32{1, 2, 3, 4, 5, 6}                // 2×3
	b := []float32{7, 9, 11, 8, 10, 12, -1, -2, -3} // 3×3, transposed
	c := []float32{100, 200, 300, 400, 500, 600}    // 2×3
	want := []float32{158, 264, 286, 539, 654, 568} // A*B' + C
	gemm(false, true, 2, 3, 3, 1, a, 3, b, 3, 1, c, 3)
	for i := range want {
		if c[i] != want[i] {
			return errors.New("its sgemm_ gives a wrong product: a library of another kind or for another CPU")
		}
	}
	return nil
}
