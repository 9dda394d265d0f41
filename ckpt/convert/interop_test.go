package convert

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rejoin/tensor"
)

// python is an interpreter that can import torch: REJOIN_PYTHON, or python3.
// Without one the test is skipped, or fails if REJOIN_INTEROP is 1.
func python(t *testing.T) string {
	t.Helper()
	name := os.Getenv("REJOIN_PYTHON")
	if name == "" {
		name = "python3"
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, "-c", "import torch").CombinedOutput(); err != nil {
		if os.Getenv("REJOIN_INTEROP") == "1" {
			t.Fatalf("%s cannot import torch: %v\n%s", name, err, out)
		}
		t.Skipf("%s cannot import torch: %v", name, err)
	}
	return name
}

// torchSees loads both files and says how the second differs from the first,
// converted to the second's dtypes.
const torchSees = `
import sys, torch
def load(path):
    if path.endswith(".safetensors"):
        try:
            from safetensors import safe_open
        except ImportError:
            print("no safetensors"); sys.exit()
        with safe_open(path, "pt") as f:
            d = {k: f.get_tensor(k) for k in f.keys()}
            for alias, kept in (f.metadata() or {}).items():
                if kept in d: d[alias] = d[kept]
            return d
    try: d = torch.load(path, map_location="cpu", weights_only=path != sys.argv[1])
    except TypeError: d = torch.load(path, map_location="cpu")
    return d.get("model_state_dict", d)
a, b = load(sys.argv[1]), load(sys.argv[2])
a = {k[len("module."):] if k.startswith("module.") else k: v for k, v in a.items()}
assert sorted(a) == sorted(b), (sorted(a), sorted(b))
for k in a:
    x = a[k].to(b[k].dtype)
    assert x.shape == b[k].shape and torch.equal(x, b[k]), k
print("equal", len(b))
`

// Real torch, and the safetensors library, read what was written and find the
// elements that torch's own .to(dtype) gives.
func TestInteropTorchReadsWhatIsWritten(t *testing.T) {
	interpreter := python(t)
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		in, out string
		o       Options
	}{
		"DDP to deployment": {"model_dp2_cuda.pth", "model_cpu.safetensors", Options{ModelOnly: true}},
		"a wrapped legacy":  {"legacy.pth", "legacy_model.pt", Options{ModelOnly: true}},
		"float16":           {"checkpoint_epoch_1.pth", "half.pt", Options{ModelOnly: true, DType: tensor.Float16}},
		"bfloat16":          {"model_dp2_cuda.pth", "bf16.safetensors", Options{ModelOnly: true, DType: tensor.BFloat16}},
		"ties":              {"tied.pt", "tied.safetensors", Options{}},
		"views":             {"views.pt", "views.safetensors", Options{}},
		"module names":      {"state_dict.pt", "sd.pt", Options{ModelOnly: true}},
	} {
		t.Run(name, func(t *testing.T) {
			in, out := filepath.Join("testdata", tc.in), filepath.Join(dir, tc.out)
			run(t, in, out, tc.o)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			said, err := exec.CommandContext(ctx, interpreter, "-c", torchSees, in, out).CombinedOutput()
			if strings.Contains(string(said), "no safetensors") {
				t.Skip("this Python has no safetensors")
			}
			if err != nil || !strings.HasPrefix(string(said), "equal ") {
				t.Errorf("%v: %s", err, said)
			}
		})
	}
}
