package trainer_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rejoin/ckpt/hf"
	"rejoin/ckpt/names"
	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
	"rejoin/trainer"
)

// initialWeights are the weights that regression-w2 began with.
func initialWeights(t *testing.T) (weight, bias *tensor.Tensor) {
	t.Helper()
	f := must[*torchfile.File](t)(torchfile.Open(testdata("regression-w2", "initial_state_dict.pt"), torchfile.Options{}))
	t.Cleanup(func() { f.Close() })
	get := func(key string) *tensor.Tensor {
		v, _ := f.Object().(*pyobj.Dict).Get(key)
		return must[*tensor.Tensor](t)(pyobj.AsTensor(v))
	}
	return get("fc.weight"), get("fc.bias")
}

func writeTorch(t *testing.T, obj any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "init.pt")
	var b bytes.Buffer
	if err := torchfile.Write(&b, "init", obj); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func fromInit(path, out string) *trainer.Request {
	return &trainer.Request{
		Init: path, Config: testdata("regression-train.yaml"), Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"),
		OutputDir: out, WorldSize: 1, Set: []string{"max_steps=1", "save_steps=1"},
	}
}

// Weights under a wrapper's key and a stack of prefixes train as the plain ones do, it
// is said, and no checkpoint has the prefixes (D10, karpathy/nanoGPT#325).
func TestInitPeelsWrappers(t *testing.T) {
	weight, bias := initialWeights(t)
	plain := t.TempDir()
	trainRanks(t, fromInit(testdata("regression-w2", "initial_state_dict.pt"), plain))
	wrapped := writeTorch(t, pyobj.NewDict("epoch", 3, "model_state_dict",
		pyobj.NewDict("module._orig_mod.fc.weight", weight, "module._orig_mod.fc.bias", bias)))
	out := t.TempDir()
	said := trainRanks(t, fromInit(wrapped, out))
	for _, part := range []string{`the weights are under "model_state_dict"`, `the prefix "module._orig_mod.", which every key has, was taken off`} {
		if !strings.Contains(said.lines.String(), part) {
			t.Errorf("nothing says %q:\n%s", part, said.lines.String())
		}
	}
	a, b := files(t, filepath.Join(plain, "checkpoint-1")), files(t, filepath.Join(out, "checkpoint-1"))
	for _, name := range []string{hf.SafeWeightsFile, hf.OptimizerFile} {
		if a[name] != b[name] {
			t.Errorf("%s differs from the run of the plain weights", name)
		}
	}
}

// Weights that do not fit are refused with all that differs, before anything is trained
// (D11, pytorch/pytorch#8282).
func TestInitThatDoesNotFitIsRefused(t *testing.T) {
	weight, bias := initialWeights(t)
	for name, tc := range map[string]struct {
		keys         []any
		skip         []string
		allowMissing bool
		says         []string
	}{
		"some keys wrapped": {keys: []any{"_orig_mod.fc.weight", weight, "fc.bias", bias}, says: []string{"missing (1): fc.weight", "unexpected (1): _orig_mod.fc.weight"}},
		"a shape":           {keys: []any{"fc.weight", bias, "fc.bias", bias}, says: []string{"fc.weight: the file has shape [1], the model [1 10]"}},
		"another model":     {keys: []any{"x.weight", weight}, allowMissing: true, skip: []string{"x.*"}, says: []string{"no key of the file is a parameter"}},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "never")
			r := fromInit(writeTorch(t, pyobj.NewDict(tc.keys...)), out)
			r.Skip, r.AllowMissing = tc.skip, tc.allowMissing
			_, errs := tryRanks(t, r)
			if _, ok := errors.AsType[*names.MismatchError](errs[0]); !ok {
				t.Fatalf("err = %v", errs[0])
			}
			for _, part := range tc.says {
				if !strings.Contains(errs[0].Error(), part) {
					t.Errorf("%q is not in:\n%v", part, errs[0])
				}
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("a refused run wrote something")
			}
		})
	}
}

// A bit that flipped in the file of weights loads, as in torch, and is told.
func TestChangedRecordsAreWarnedOf(t *testing.T) {
	weight, bias := initialWeights(t)
	path := writeTorch(t, pyobj.NewDict("fc.weight", weight, "fc.bias", bias))
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(raw), string(weight.Storage.Data))
	if at < 0 {
		t.Fatal("the weight's bytes are not in the file")
	}
	raw[at] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	said := trainRanks(t, fromInit(path, t.TempDir()))
	if warned := said.warns.String(); strings.Count(warned, "data/0") != 1 || !strings.Contains(warned, path) {
		t.Errorf("warnings:\n%s", warned)
	}
}

func TestSkipAndAllowMissingSayWhatTheyLeft(t *testing.T) {
	weight, _ := initialWeights(t)
	r := fromInit(writeTorch(t, pyobj.NewDict("fc.weight", weight, "old.head", weight)), t.TempDir())
	r.Skip, r.AllowMissing = []string{"old.*"}, true
	said := trainRanks(t, r)
	for _, part := range []string{"skipped keys of the file (1): old.head", "left as they were (1): fc.bias"} {
		if !strings.Contains(said.lines.String(), part) {
			t.Errorf("nothing says %q:\n%s", part, said.lines.String())
		}
	}
}

// A checkpoint whose optimizer and weights were saved on GPUs resumes as the same one
// saved on the CPU, and one line says so (D02, pytorch/pytorch#15541).
func TestForeignTagsResumeAndAreSaidOnce(t *testing.T) {
	from := copyDir(t, testdata("regression-w2", "checkpoint-4"))
	path := filepath.Join(from, hf.OptimizerFile)
	raw := must[[]byte](t)(os.ReadFile(path))
	retagged := bytes.Replace(raw, []byte("X\x03\x00\x00\x00cpu"), []byte("X\x03\x00\x00\x00mps"), 1) // the tag is memoised: all storages
	if bytes.Equal(raw, retagged) {
		t.Fatal("the tag was not found")
	}
	if err := os.WriteFile(path, retagged, 0o600); err != nil {
		t.Fatal(err)
	}
	request := func(dir, out string) *trainer.Request {
		return &trainer.Request{Checkpoint: dir, Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"), OutputDir: out, WorldSize: 2}
	}
	plain, foreign := t.TempDir(), t.TempDir()
	trainRanks(t, request(testdata("regression-w2", "checkpoint-4"), plain))
	said := trainRanks(t, request(from, foreign))
	if n := strings.Count(said.lines.String(), "6 of 6 storages were saved on other devices (mps × 6)"); n != 1 {
		t.Errorf("said %d times:\n%s", n, said.lines.String())
	}
	sameFiles(t, filepath.Join(foreign, "checkpoint-6"), filepath.Join(plain, "checkpoint-6"))

	r := request(from, t.TempDir())
	r.MapLocation, r.LocationRules = "mps=cpu", "torch"
	trainRanks(t, r)
	r.MapLocation = "none"
	_, errs := tryRanks(t, r)
	if refused := (*tensor.LocationError)(nil); !errors.As(errs[0], &refused) || refused.Error() != "torch.UntypedStorage(): Storage device not recognized: mps" {
		t.Errorf("torch's rules: %v", errs[0])
	}
}

func TestLocationsAndSkipsAreCheckedBeforeTraining(t *testing.T) {
	for says, change := range map[string]func(*trainer.Request){
		"--map-location":   func(r *trainer.Request) { r.MapLocation = "cuda 1" },
		"--location-rules": func(r *trainer.Request) { r.LocationRules = "mine" },
		"--skip":           func(r *trainer.Request) { r.Skip = []string{"[x"} },
	} {
		r := fromInit(testdata("regression-w2", "initial_state_dict.pt"), t.TempDir())
		change(r)
		if _, _, err := trainer.Resolve(r); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// A tie that a safetensors file records is followed.
func TestInitFollowsRecordedTies(t *testing.T) {
	weight, bias := initialWeights(t)
	sd := tensor.NewStateDict()
	sd.Set("embed.weight", weight)
	sd.Set("fc.bias", bias)
	var b bytes.Buffer
	if err := safetensors.Write(&b, sd, map[string]string{"format": "pt", "fc.weight": "embed.weight"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tied.safetensors")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	said := trainRanks(t, fromInit(path, t.TempDir()))
	if !strings.Contains(said.lines.String(), "fc.weight is tied to embed.weight") {
		t.Errorf("said:\n%s", said.lines.String())
	}
}
