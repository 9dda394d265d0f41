package kernel

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
)

// The environment variables that force a choice.
const (
	EnvBLAS   = "REJOIN_BLAS"
	EnvKernel = "REJOIN_KERNEL"
)

// ForcedError says that what an environment variable forces cannot be had.
type ForcedError struct {
	Env   string // EnvBLAS or EnvKernel
	Value string // what it holds
	Err   error  // why not
}

func (e *ForcedError) Error() string {
	return fmt.Sprintf("%s=%s cannot be had: %v (unset %s to use the best this machine has)", e.Env, e.Value, e.Err, e.Env)
}

func (e *ForcedError) Unwrap() error { return e.Err }

var loaded struct {
	once sync.Once
	err  error
	name string
	gemm gemmFunc
}

// Load chooses the BLAS library and the kernel level for this process, once;
// later calls return the same. The error is a [*ForcedError]. Gemm and BLAS call
// it by themselves; a program calls it first, to hear of the error.
func Load() error {
	loaded.once.Do(func() {
		loaded.name, loaded.gemm, loaded.err = chooseBLAS(os.Getenv(EnvBLAS))
		if loaded.err == nil {
			_, loaded.err = chooseLevel(os.Getenv(EnvKernel), hasAVX2)
		}
	})
	return loaded.err
}

// BLAS names the library that [Gemm] uses, with its version where it tells one:
// "openblas 0.3.21 (Zen)" or "gonum". Results of two processes are equal bit for
// bit only where the names are. It is "none" if [Load] failed.
func BLAS() string {
	if Load() != nil {
		return "none"
	}
	return loaded.name
}

// Level names the instruction set of the other kernels: "avx2" or "generic".
// Both give the same bits.
func Level() string {
	if useAVX2 {
		return "avx2"
	}
	return "generic"
}

// useAVX2 is decided before anything runs; if it cannot be as forced, Load says so.
var useAVX2, _ = chooseLevel(os.Getenv(EnvKernel), hasAVX2)

// chooseLevel decides between assembly and plain Go.
func chooseLevel(forced string, have bool) (avx2 bool, err error) {
	switch forced {
	case "":
		return have, nil
	case "generic":
		return false, nil
	case "avx2":
		if have {
			return true, nil
		}
		return false, &ForcedError{EnvKernel, forced, errors.New("this CPU lacks AVX2 or FMA")}
	default:
		return false, &ForcedError{EnvKernel, forced, errors.New("the levels are generic and avx2")}
	}
}

// library is one way to find a BLAS: the file names to try, in order.
type library struct {
	name  string
	files []string
}

// libraries lists the shared libraries that are looked for, best first.
// Reference BLAS (libblas.so.3) is not among them: gonum is as fast.
func libraries(goos string) []library {
	if goos == "darwin" {
		const brew = "/opt/homebrew/opt/openblas/lib/"
		return []library{{"openblas", []string{"libopenblas.dylib", "libopenblas.0.dylib", brew + "libopenblas.dylib"}}}
	}
	return []library{
		{"openblas", []string{"libopenblas.so.0", "libopenblas.so"}},
		{"mkl", []string{"libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so"}},
	}
}

// chooseBLAS finds the library that forced names, or, if it is empty, the best
// there is, with gonum as the last.
func chooseBLAS(forced string) (string, gemmFunc, error) {
	if forced == "gonum" {
		return "gonum", gonumGemm, nil
	}
	for _, lib := range libraries(runtime.GOOS) {
		if forced != "" && forced != lib.name {
			continue
		}
		name, gemm, err := openFirst(lib.files)
		if err == nil {
			return name, gemm, nil
		}
		if forced != "" {
			return "", nil, &ForcedError{EnvBLAS, forced, err}
		}
	}
	if forced == "" {
		return "gonum", gonumGemm, nil
	}
	if !strings.ContainsAny(forced, "/.") {
		return "", nil, &ForcedError{EnvBLAS, forced, errors.New("the choices are gonum, openblas, mkl and the path of a library")}
	}
	name, gemm, err := openBLAS(forced)
	if err != nil {
		return "", nil, &ForcedError{EnvBLAS, forced, err}
	}
	return name, gemm, nil
}

// openFirst opens the first of files that is there and works.
func openFirst(files []string) (string, gemmFunc, error) {
	var errs []error
	for _, file := range files {
		name, gemm, err := openBLAS(file)
		if err == nil {
			return name, gemm, nil
		}
		errs = append(errs, err)
	}
	return "", nil, errors.Join(errs...)
}
