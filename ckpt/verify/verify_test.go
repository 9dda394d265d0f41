package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt/hf"
	"rejoin/ckpt/names"
	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

const trainer = "../../testdata/regression-w2/checkpoint-2"

func verify(t *testing.T, path string, o Options) *Result {
	t.Helper()
	r, err := Verify(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Result) text(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteText(&b, nil, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func copyOf(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkpoint-2")
	if err := os.CopyFS(dir, os.DirFS(trainer)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWholeCheckpointIsOK(t *testing.T) {
	r := verify(t, trainer, Options{Finite: true})
	if !r.OK || len(r.Problems) != 0 {
		t.Fatalf("%+v", r)
	}
	text := r.text(t)
	for _, part := range []string{"checked: structure of 7 files", "all that a resume needs is there", "random states of 2 of 2 ranks", "checksums of", "is finite", "not checked: hashes of the files: there is no manifest.json", "checkpoint-2: OK\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// Each damage is one problem of its file, with the next step
// (D03, sml2h3/dddd_trainer#36; D04, huggingface/transformers#8497).
func TestDamage(t *testing.T) {
	lfs := "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4321\n"
	for name, tc := range map[string]struct {
		file   string
		damage func(path string) error
		says   []string
	}{
		"a Git-LFS stub": {"model.safetensors", replace(lfs), []string{"of 4321 bytes", "git lfs pull"}},
		"a stub of another name": {"pytorch_model.bin", func(path string) error {
			return errors.Join(os.Remove(filepath.Join(filepath.Dir(path), "model.safetensors")), replace(lfs)(path))
		}, []string{"of 4321 bytes with sha256:4d7a", "git lfs pull"}},
		"cut":                 {"optimizer.pt", truncate(-22), []string{"truncated", "end record is missing"}},
		"half":                {"optimizer.pt", truncate(1000), []string{"truncated"}},
		"empty":               {"scheduler.pt", truncate(0), []string{"empty"}},
		"a flipped bit":       {"optimizer.pt", flip, []string{"record data/1", "the checksum is", "copy the file again"}},
		"no optimizer":        {"optimizer.pt", os.Remove, []string{"missing", "fresh optimizer"}},
		"no weights":          {"model.safetensors", os.Remove, []string{"missing"}},
		"a state of nonsense": {"trainer_state.json", replace("{"), []string{"trainer_state.json", "expected a key", "use another checkpoint"}},
		"bad random state":    {"rng_state_1.pth", truncate(500), []string{"truncated"}},
		"bad arguments":       {"training_args.bin", truncate(100), []string{"truncated"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t)
			path := filepath.Join(dir, tc.file)
			if err := tc.damage(path); err != nil {
				t.Fatal(err)
			}
			r := verify(t, dir, Options{})
			if r.OK || len(r.Problems) != 1 || r.Problems[0].Path != path || r.Problems[0].Next == "" {
				t.Fatalf("problems %+v", r.Problems)
			}
			for _, part := range tc.says {
				if !strings.Contains(r.Problems[0].String(), part) {
					t.Errorf("%q is not in: %v", part, r.Problems[0])
				}
			}
		})
	}
}

func replace(text string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
}

// truncate keeps n bytes, or all but -n.
func truncate(n int64) func(string) error {
	return func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if n < 0 {
			n += info.Size()
		}
		return os.Truncate(path, n)
	}
}

// flip changes one bit of the record data/1.
func flip(path string) error {
	f, err := torchfile.Open(path, torchfile.Options{})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(f.Records(), func(r torchfile.Record) bool { return r.Name == "data/1" })
	offset := f.Records()[i].Offset
	if err := f.Close(); err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[offset] ^= 4
	return os.WriteFile(path, b, 0o600)
}

// Several problems are listed at once.
func TestEveryProblemIsListed(t *testing.T) {
	dir := copyOf(t)
	for _, name := range []string{"optimizer.pt", "scheduler.pt", "rng_state_0.pth"} {
		if err := os.Truncate(filepath.Join(dir, name), 200); err != nil {
			t.Fatal(err)
		}
	}
	r := verify(t, dir, Options{})
	var broken []string
	for _, p := range r.Problems {
		broken = append(broken, filepath.Base(p.Path))
	}
	if !slices.Equal(slices.Sorted(slices.Values(broken)), []string{"optimizer.pt", "rng_state_0.pth", "scheduler.pt"}) || !strings.HasSuffix(r.text(t), ": 3 problems\n") {
		t.Errorf("%+v", r.Problems)
	}
}

// A checkpoint of Rejoin is held to its manifest's hashes.
func TestManifest(t *testing.T) {
	out := t.TempDir()
	w, err := hf.Begin(out, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	from, err := hf.Open(trainer, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	c := hf.Contents{Step: 2, Manifest: hf.Manifest{WorldSize: 2, ModelYAML: "a model"}}
	var errs [6]error
	c.Weights, errs[0] = from.Weights()
	c.Optimizer, errs[1] = from.Optimizer()
	c.Scheduler, errs[2] = from.Scheduler()
	c.State, errs[3] = from.State()
	for rank := range 2 {
		random, err := from.RandomState(rank, 2)
		errs[4] = errors.Join(errs[4], err)
		c.RandomStates = append(c.RandomStates, random)
	}
	errs[5] = w.Write(context.Background(), c)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(out, "checkpoint-2")
	asked := ""
	model := func(description string, _ *tensor.StateDict, _ map[string]string) error {
		asked = description
		return nil
	}
	if r := verify(t, out, Options{Forward: model}); !r.OK || asked != "a model" || !strings.Contains(r.text(t), "against manifest.json") || !strings.Contains(r.text(t), "the newest complete checkpoint") {
		t.Fatalf("%+v, asked %q", r, asked)
	}
	path := filepath.Join(dir, "rng_state_1.pth")
	b, err := os.ReadFile(filepath.Join(trainer, "rng_state_1.pth"))
	if err == nil {
		b[len(b)-30] ^= 1
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := verify(t, dir, Options{})
	if r.OK || r.Problems[0].Path != path {
		t.Errorf("%+v", r.Problems)
	}
}

func writeSafe(t *testing.T, path string, values map[string]*tensor.Tensor) {
	t.Helper()
	sd := tensor.NewStateDict()
	for name, v := range values {
		sd.Set(name, v)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, sd, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestShardsAgainstTheirIndex(t *testing.T) {
	dir := t.TempDir()
	one := tensor.FromFloat32([]float32{1}, 1)
	writeSafe(t, filepath.Join(dir, "model-00001-of-00002.safetensors"), map[string]*tensor.Tensor{"a": one, "stray": one})
	writeSafe(t, filepath.Join(dir, "model-00002-of-00002.safetensors"), map[string]*tensor.Tensor{"b": one})
	index := filepath.Join(dir, "model.safetensors.index.json")
	if err := replace(`{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors", "c": "model-00002-of-00002.safetensors"}}`)(index); err != nil {
		t.Fatal(err)
	}
	text := verify(t, index, Options{}).text(t)
	for _, part := range []string{`it holds "stray"`, `"c" is missing, which model.safetensors.index.json places there`, ": 2 problems"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
	if err := os.Remove(filepath.Join(dir, "model-00002-of-00002.safetensors")); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, index, Options{}); r.OK || !strings.Contains(r.text(t), "model-00002-of-00002.safetensors") {
		t.Errorf("a lost shard: %+v", r.Problems)
	}
}

func TestFinite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors")
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	writeSafe(t, path, map[string]*tensor.Tensor{
		"good": tensor.FromFloat32([]float32{1, 2}, 2), "bad": tensor.FromFloat32([]float32{1, 2, 3, nan, inf, nan}, 2, 3),
		"n": {DType: tensor.Int64, Storage: &tensor.Storage{Data: []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x7f}}},
		"c": {DType: tensor.Complex64, Shape: []int{2}, Stride: []int{1}, Storage: &tensor.Storage{Data: []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x7f}}},
	})
	if r := verify(t, path, Options{}); !r.OK {
		t.Errorf("not asked for, yet %+v", r.Problems)
	}
	calls := 0
	r := verify(t, path, Options{Finite: true, Progress: func(done, total int64) { calls++ }})
	got := []string{}
	for _, p := range r.Problems {
		got = append(got, p.Where+": "+p.Problem)
	}
	slices.Sort(got)
	want := []string{"key bad: 2 of 6 elements are NaN and 1 infinite, the first at index [1 0]", "key c: 0 of 2 elements are NaN and 1 infinite, the first at index [1]"}
	if !slices.Equal(got, want) || calls != 4 {
		t.Errorf("%d calls, got %q", calls, got)
	}
}

func TestForward(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.pt")
	var b bytes.Buffer
	if err := torchfile.Write(&b, "m", pyobj.NewDict("module.w", tensor.FromFloat32([]float32{1}, 1))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	find := func(description string, sd *tensor.StateDict, ties map[string]string) error {
		_, err := names.Find(sd, []names.Param{{Name: description, Shape: []int{1}}}, names.Options{Ties: ties})
		return err
	}
	for description, says := range map[string]string{"w": "checked: a forward pass", "v": "no key of the file is a parameter", "": "not checked: a forward pass: the checkpoint does not say"} {
		r := verify(t, path, Options{Description: description, Forward: find})
		if text := r.text(t); !strings.Contains(text, says) || r.OK == (description == "v") {
			t.Errorf("%q:\n%s", description, text)
		}
	}
}

func TestWhatIsNoCheckpoint(t *testing.T) {
	dir := t.TempDir()
	html := filepath.Join(dir, "model.pt")
	if err := replace("<!DOCTYPE html><html>404")(html); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{html: "web page", dir: "it holds none of a checkpoint's files", filepath.Join(dir, "gone"): "does not exist"} {
		r := verify(t, path, Options{})
		if r.OK || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Problem, says) || r.Problems[0].Next == "" {
			t.Errorf("%s: %+v", path, r.Problems)
		}
	}
}

func TestVerifyStopsWhenAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Verify(ctx, trainer, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func ExampleVerify() {
	r, err := Verify(context.Background(), "../../testdata/regression-w2/checkpoint-2", Options{Finite: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.OK, len(r.Problems))
	fmt.Println(r.Unchecked[0])
	// Output:
	// true 0
	// hashes of the files: there is no manifest.json, as in a checkpoint of the Trainer
}
