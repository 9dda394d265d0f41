//go:build (linux || darwin) && (amd64 || arm64)

package kernel

import (
	"os"
	"runtime"
	"testing"

	"github.com/ebitengine/purego"
)

func TestDescribeOpenBLAS(t *testing.T) {
	for config, want := range map[string]string{
		"OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Zen MAX_THREADS=64": "openblas 0.3.21 (Zen)",
		"OpenBLAS 0.3.26 DYNAMIC_ARCH NO_AFFINITY SkylakeX MAX_THREADS=64":       "openblas 0.3.26 (SkylakeX)",
		"OpenBLAS 0.3.29 NO_AFFINITY VORTEX MAX_THREADS=8":                       "openblas 0.3.29 (VORTEX)",
		"OpenBLAS 0.3.13": "openblas 0.3.13",
		"":                "openblas",
	} {
		if got := describeOpenBLAS(config); got != want {
			t.Errorf("%q: %q, want %q", config, got, want)
		}
	}
}

func TestOpenBLASRefusesOtherLibraries(t *testing.T) {
	for _, file := range []string{"libm.so.6", "libdoesnotexist.so.1"} {
		if _, _, err := openBLAS(file); err == nil {
			t.Errorf("%s was taken for a BLAS", file)
		}
	}
}

func TestSetUnsetRestores(t *testing.T) {
	t.Setenv("REJOIN_TEST_SET", "7")
	restore := setUnset([]string{"REJOIN_TEST_SET", "REJOIN_TEST_UNSET"}, "1")
	if os.Getenv("REJOIN_TEST_SET") != "7" || os.Getenv("REJOIN_TEST_UNSET") != "1" {
		t.Error("a variable that was set was changed, or one that was not set was left")
	}
	restore()
	if _, ok := os.LookupEnv("REJOIN_TEST_UNSET"); ok || os.Getenv("REJOIN_TEST_SET") != "7" {
		t.Error("the environment was not restored")
	}
}

// A BLAS with a thread for each core would slow down the other ranks of the host.
func TestOpenBLASHasOneThread(t *testing.T) {
	if os.Getenv("OPENBLAS_NUM_THREADS") != "" {
		t.Skip("OPENBLAS_NUM_THREADS is set: the number of threads is the user's")
	}
	for _, file := range libraries(runtime.GOOS)[0].files {
		if _, _, err := openBLAS(file); err != nil {
			continue
		}
		handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			t.Fatal(err)
		}
		threads, err := purego.Dlsym(handle, "openblas_get_num_threads")
		if err != nil {
			t.Fatal(err)
		}
		if n, _, _ := purego.SyscallN(threads); n != 1 {
			t.Errorf("%s uses %d threads", file, n)
		}
		return
	}
	t.Skip("OpenBLAS is not installed")
}

func TestSelfTestCatchesAWrongProduct(t *testing.T) {
	if err := selfTest(gonumGemm); err != nil {
		t.Error(err)
	}
	wrong := func(_, _ bool, _, _, _ int, _ float32, _ []float32, _ int, _ []float32, _ int, _ float32, c []float32, _ int) {
		c[0] = 1
	}
	if selfTest(wrong) == nil {
		t.Error("a wrong product passed")
	}
}
