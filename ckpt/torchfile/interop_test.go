package torchfile

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// python returns an interpreter with torch: REJOIN_PYTHON, else python3. The
// test is skipped without one, unless REJOIN_INTEROP=1 demands it.
func python(t *testing.T) string {
	t.Helper()
	demanded := os.Getenv("REJOIN_INTEROP") == "1"
	name := os.Getenv("REJOIN_PYTHON")
	if name == "" {
		name = "python3"
	}
	if !demanded && testing.Short() {
		t.Skip("short test: no Python")
	}
	out, err := exec.Command(name, "-c", "import torch").CombinedOutput()
	if err != nil && demanded {
		t.Fatalf("REJOIN_INTEROP=1, but %s has no torch: %v\n%s", name, err, out)
	}
	if err != nil {
		t.Skipf("%s has no torch: %v", name, err)
	}
	return name
}

// run runs a script; numpy 1 does not know the module numpy._core, so it is
// given the old one under that name.
func run(t *testing.T, python, script string, args ...string) string {
	t.Helper()
	const prelude = `
import sys, numpy
if not hasattr(numpy, "_core"):
    import numpy.core.multiarray
    sys.modules["numpy._core"] = numpy.core
    sys.modules["numpy._core.multiarray"] = numpy.core.multiarray
import torch
def load(path):
    try: return torch.load(path, map_location="cpu", weights_only=False)
    except TypeError: return torch.load(path, map_location="cpu")
`
	cmd := exec.Command(python, append([]string{"-c", prelude + script}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return string(out)
}

// listTensors prints every tensor by key path, dtype, shape and elements.
const listTensors = `
import hashlib
def elements(t):
    t = t.detach().contiguous()
    if t.is_complex(): t = torch.view_as_real(t).contiguous()
    return t.flatten().view(torch.uint8).numpy().tobytes() if t.numel() else b""
def walk(o, path):
    if isinstance(o, torch.Tensor):
        if o.device.type != "meta" and not o.is_sparse and not o.is_quantized:
            print(path, str(o.dtype)[6:], list(o.shape), hashlib.sha256(elements(o)).hexdigest())
    elif isinstance(o, dict):
        for k, v in o.items(): walk(v, path + [str(k)])
    elif isinstance(o, (list, tuple)):
        for i, v in enumerate(o): walk(v, path + [str(i)])
`

// TestInteropTorchReadsOurFiles rewrites every file that torch may have here
// and compares what torch finds in the two.
func TestInteropTorchReadsOurFiles(t *testing.T) {
	py := python(t)
	dir := t.TempDir()
	var pairs []string
	for _, pattern := range []string{"zoo/*.pt", "torch/*.pt", "trainer/*.p*"} {
		paths, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			f, err := Open(path, Options{Describe: true})
			if err != nil {
				t.Fatal(err)
			}
			written := filepath.Join(dir, strings.ReplaceAll(path, string(filepath.Separator), "-"))
			if err := os.WriteFile(written, write(t, ArchiveName(path), f.Object()), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			pairs = append(pairs, path, written)
		}
	}
	out := run(t, py, listTensors+`
import contextlib, io
def text(path):
    out = io.StringIO()
    with contextlib.redirect_stdout(out): walk(load(path), [])
    return out.getvalue()
read = 0
for theirs, ours in zip(sys.argv[1::2], sys.argv[2::2]):
    try: want = text(theirs)
    except Exception: continue  # this version of torch cannot read its own file
    read += 1
    got = text(ours)
    if got != want: print("DIFFERS", theirs, want, got, sep="\n")
print("read", read)
`, pairs...)
	if strings.Contains(out, "DIFFERS") {
		t.Error(out)
	}
	if strings.Contains(out, "read 0\n") {
		t.Errorf("torch read nothing: %s", out)
	}
	t.Log(strings.TrimSpace(out))
}

// TestInteropWeightsOnly: what we write of tensors loads under
// torch's safe unpickler as well.
func TestInteropWeightsOnly(t *testing.T) {
	py := python(t)
	path := filepath.Join(t.TempDir(), "model.pt")
	state := &pyobj.Dict{Kind: pyobj.OrderedDict, State: pyobj.NewDict("_metadata", &pyobj.Dict{Kind: pyobj.OrderedDict})}
	state.Set("fc.weight", tensor.FromFloat32([]float32{1, 2, 3, 4}, 2, 2))
	state.Set("fc.bias", tensor.FromFloat32([]float32{5, 6}, 2))
	if err := os.WriteFile(path, write(t, "model", state), 0o600); err != nil {
		t.Fatal(err)
	}
	out := run(t, py, `
d = torch.load(sys.argv[1], weights_only=True)
net = torch.nn.Module(); net.fc = torch.nn.Linear(2, 2)
net.load_state_dict(d)
print(type(d).__name__, net.fc.weight.tolist(), net.fc.bias.tolist())
`, path)
	if want := "OrderedDict [[1.0, 2.0], [3.0, 4.0]] [5.0, 6.0]\n"; out != want {
		t.Errorf("torch read %q, want %q", out, want)
	}
}

// TestInteropWeReadTheirFiles reads what this torch writes, in both formats.
func TestInteropWeReadTheirFiles(t *testing.T) {
	py := python(t)
	dir := t.TempDir()
	want := run(t, py, listTensors+`
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
opt = torch.optim.AdamW(net.parameters(), lr=0.01)
net(torch.randn(8, 3)).sum().backward(); opt.step()
obj = {"model": net.state_dict(), "optimizer": opt.state_dict(), "half": torch.ones(3).bfloat16(), "view": torch.arange(12.0).reshape(3, 4)[:, 1], "step": 3}
torch.save(obj, sys.argv[1] + "/zip.pt")
torch.save(obj, sys.argv[1] + "/legacy.pt", _use_new_zipfile_serialization=False)
walk(obj, [])
`, dir)
	for _, name := range []string{"zip.pt", "legacy.pt"} {
		f, err := Open(filepath.Join(dir, name), Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]seen{}
		walk(t, f.Object(), "", got)
		lines := strings.Split(strings.TrimSpace(want), "\n")
		if len(got) != len(lines) {
			t.Errorf("%s: %d tensors, want %d", name, len(got), len(lines))
		}
		for path, s := range got {
			if !strings.Contains(want, s.SHA256) {
				t.Errorf("%s: %s has other elements", name, path)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
