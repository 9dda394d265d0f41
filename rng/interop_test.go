package rng_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"rejoin/rng"
)

// python returns the interpreter that REJOIN_PYTHON names, or python3, for a test
// that needs torch. Such tests run with REJOIN_INTEROP=1, and then must.
func python(t *testing.T) string {
	t.Helper()
	if os.Getenv("REJOIN_INTEROP") != "1" {
		t.Skip("needs Python with torch: set REJOIN_INTEROP=1, and REJOIN_PYTHON if it is not python3")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("torch rounds otherwise without AVX2")
	}
	path, err := exec.LookPath(cmp.Or(os.Getenv("REJOIN_PYTHON"), "python3"))
	if err != nil {
		t.Fatalf("REJOIN_INTEROP=1 needs Python with torch: %v; set REJOIN_PYTHON", err)
	}
	return path
}

// goOn loads a state into torch and prints what it draws, and its state after.
const goOn = `
import json, sys, torch
g = torch.Generator()
g.set_state(torch.frombuffer(bytearray(open(sys.argv[1], "rb").read()), dtype=torch.uint8))
small = torch.empty(3).normal_(generator=g).view(torch.int32).tolist()
out = {
    "seed": g.initial_seed(),
    "normal": small,
    "perm": torch.randperm(100, generator=g).tolist(),
    "uniform": torch.empty(50).uniform_(-0.25, 0.75, generator=g).view(torch.int32).tolist(),
    "large": torch.empty(37).normal_(0.5, 2.0, generator=g).view(torch.int32).tolist(),
}
open(sys.argv[2], "wb").write(g.get_state().numpy().tobytes())
json.dump(out, sys.stdout)
`

func TestInteropTorchGoesOnFromOurState(t *testing.T) {
	interpreter := python(t)
	g := rng.New(77)
	for range 700 {
		g.Uint32()
	}
	g.NormalFloat32(make([]float32, 1), 0, 1) // leaves a cached normal
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	if err := os.WriteFile(before, g.State(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), interpreter, "-c", goOn, before, after)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("torch: %v: %s", err, stderr.Bytes())
	}
	type draws struct {
		Seed           uint64
		Normal         []int32
		Perm           []int
		Uniform, Large []int32
	}
	normal, uniform, large := make([]float32, 3), make([]float32, 50), make([]float32, 37)
	g.NormalFloat32(normal, 0, 1)
	perm := g.Perm(100)
	g.UniformFloat32(uniform, -0.25, 0.75)
	g.NormalFloat32(large, 0.5, 2)
	want, err := json.Marshal(draws{g.InitialSeed(), bitsOf(normal), perm, bitsOf(uniform), bitsOf(large)})
	if err != nil {
		t.Fatal(err)
	}
	var torch draws
	if err := json.Unmarshal(stdout, &torch); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(torch)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("torch draws %s, expected %s", got, want)
	}
	state, err := os.ReadFile(after)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(state, g.State()) {
		t.Error("after the same draws the states differ")
	}
}
