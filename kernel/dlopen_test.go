//go:build (linux || darwin) && (amd64 || arm64)

package kernel

import (
	"os"
	"testing"
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
