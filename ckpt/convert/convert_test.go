package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt"
	"rejoin/ckpt/compare"
	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/source"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

func run(t *testing.T, in, out string, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), in, out, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func open(t *testing.T, path string) *source.Source {
	t.Helper()
	s, err := source.Open(path, ckpt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func model(t *testing.T, path string) *tensor.StateDict {
	t.Helper()
	sd, _, err := open(t, path).Model()
	if err != nil {
		t.Fatal(err)
	}
	return sd
}

// same compares two checkpoints bit for bit.
func same(t *testing.T, a, b string) {
	t.Helper()
	r, err := compare.Compare(context.Background(), open(t, a), open(t, b), compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Equal {
		var text bytes.Buffer
		_ = r.WriteText(&text, nil)
		t.Errorf("%s and %s differ:\n%s", a, b, text.String())
	}
}

// A legacy file becomes a zip with all that it holds, tagged cpu.
func TestWholeFilesAreKept(t *testing.T) {
	for _, name := range []string{"legacy.pth", "checkpoint_epoch_1.pth", "views.pt", "python_values.pt", "every_dtype.pt", "meta.pt", "parameter.pt"} {
		out := filepath.Join(t.TempDir(), "out.pt")
		r := run(t, filepath.Join("testdata", name), out, Options{})
		same(t, filepath.Join("testdata", name), out)
		s := open(t, out)
		if f := s.Parts[0].Checkpoint; f.Format != "zip" || tensor.ForeignTags(f.Tags()) != "" {
			t.Errorf("%s: %s, %v", name, f.Format, f.Tags())
		}
		if strings.HasPrefix(name, "legacy") && !strings.Contains(strings.Join(r.Notes, " "), "saved on other devices") {
			t.Errorf("notes %q", r.Notes)
		}
	}
}

// A tie is kept once, recorded, and rebuilt; the round trip is equal
// (D08, safetensors/safetensors#98).
func TestTiesSurviveSafetensors(t *testing.T) {
	dir := t.TempDir()
	safe, back := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "back.pt")
	r := run(t, "testdata/tied.pt", safe, Options{})
	if !slices.Contains(r.Notes, "lm_head.weight is tied to embed.weight: one copy is kept, and the tie in the metadata") {
		t.Errorf("notes %q", r.Notes)
	}
	f, err := safetensors.Open(safe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Entries()) != 1 || f.Metadata()["lm_head.weight"] != "embed.weight" || f.Metadata()["format"] != "pt" {
		t.Errorf("%v, %v", f.Entries(), f.Metadata())
	}
	run(t, safe, back, Options{})
	sd := model(t, back)
	a, _ := sd.Get("embed.weight")
	b, ok := sd.Get("lm_head.weight")
	if !ok || a.Storage != b.Storage {
		t.Error("the tie is gone")
	}
	same(t, "testdata/tied.pt", back)

	again := filepath.Join(dir, "again.safetensors")
	run(t, back, again, Options{})
	x, _ := os.ReadFile(safe)
	if y, _ := os.ReadFile(again); !bytes.Equal(x, y) {
		t.Error("the second file is not the first")
	}
}

// Overlapping views are copied apart, with a note, and take only their own bytes
// (D07, pytorch/pytorch#40157; D08, safetensors/safetensors#98).
func TestOverlappingViewsAreCopied(t *testing.T) {
	out := filepath.Join(t.TempDir(), "v.safetensors")
	r := run(t, "testdata/views.pt", out, Options{})
	if n := strings.Count(strings.Join(r.Notes, "\n"), "each gets a copy of its own"); n != 6 {
		t.Errorf("%d notes: %q", n, r.Notes)
	}
	same(t, "testdata/views.pt", out)
	if info, err := os.Stat(out); err != nil || info.Size() > 892+1000 {
		t.Errorf("%v bytes, %v", info.Size(), err)
	}
}

func TestModelOnlyPeelsAndSays(t *testing.T) {
	out := filepath.Join(t.TempDir(), "m.safetensors")
	r := run(t, "testdata/checkpoint_epoch_1.pth", out, Options{ModelOnly: true})
	if got, want := model(t, out).Names(), []string{"backbone.0.bias", "backbone.0.weight", "backbone.2.bias", "backbone.2.weight"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("names %q", got)
	}
	all := strings.Join(r.Notes, "\n")
	for _, part := range []string{`the weights are under "model_state_dict"`, "left out, as no weights: epoch, optimizer_state_dict, loss, device", `the prefix "module." was taken off all 4 keys`, "tagged cpu"} {
		if !strings.Contains(all, part) {
			t.Errorf("%q is not in:\n%s", part, all)
		}
	}
}

// torch's _metadata follows the names, as consume_prefix_in_state_dict_if_present has it.
func TestModuleVersionsFollowTheNames(t *testing.T) {
	versions := func(path string) string {
		d := open(t, path).Parts[0].Checkpoint.Object().(*pyobj.Dict)
		v, _ := d.State.(*pyobj.Dict).Get("_metadata")
		var out []string
		for _, e := range v.(*pyobj.Dict).Entries() {
			out = append(out, fmt.Sprint(e.Key))
		}
		return strings.Join(out, "|")
	}
	dir := t.TempDir()
	prefixed, back := filepath.Join(dir, "p.pt"), filepath.Join(dir, "back.pt")
	run(t, "testdata/state_dict.pt", prefixed, Options{AddPrefix: "module."})
	if got := versions(prefixed); !strings.HasPrefix(got, "module|module.0|module.1|") {
		t.Errorf("modules %q", got)
	}
	run(t, prefixed, back, Options{ModelOnly: true})
	if got, want := versions(back), versions("testdata/state_dict.pt"); got != want {
		t.Errorf("modules %q, want %q", got, want)
	}
	same(t, "testdata/state_dict.pt", back)
}

func TestPrefixes(t *testing.T) {
	var prefix *PrefixError
	if _, err := Run(context.Background(), "testdata/state_dict.pt", filepath.Join(t.TempDir(), "x.pt"), Options{StripPrefix: "0."}); !errors.As(err, &prefix) {
		t.Errorf("a prefix of some keys: %v", err)
	}
	out := filepath.Join(t.TempDir(), "x.pt")
	run(t, "testdata/model_dp2_cuda.pth", out, Options{StripPrefix: "module.", AddPrefix: "net."})
	for _, name := range model(t, out).Names() {
		if !strings.HasPrefix(name, "net.backbone.") {
			t.Errorf("name %q", name)
		}
	}
}

// Shards follow huggingface_hub's division, and their index reads back.
func TestShards(t *testing.T) {
	for _, to := range []Format{Safetensors, Torch} {
		dir := filepath.Join(t.TempDir(), "sharded")
		r := run(t, "testdata/model_dp2_cuda.pth", dir, Options{To: to, MaxShardSize: 1000})
		base := weightsFile(to)
		stem, ext := strings.TrimSuffix(base, filepath.Ext(base)), filepath.Ext(base)
		want := []string{stem + "-00001-of-00003" + ext, stem + "-00002-of-00003" + ext, stem + "-00003-of-00003" + ext, base + ".index.json"}
		var got []string
		for _, f := range r.Files {
			got = append(got, filepath.Base(f))
		}
		if !slices.Equal(got, want) {
			t.Errorf("files %q, want %q", got, want)
		}
		raw, err := os.ReadFile(filepath.Join(dir, base+".index.json"))
		if err != nil {
			t.Fatal(err)
		}
		var index struct {
			Metadata struct {
				Parameters int `json:"total_parameters"`
				Size       int `json:"total_size"`
			} `json:"metadata"`
			Map map[string]string `json:"weight_map"`
		}
		if err := json.Unmarshal(raw, &index); err != nil || index.Metadata.Size != 7240 || index.Metadata.Parameters != 1810 || len(index.Map) != 4 {
			t.Errorf("%v: %s", err, raw)
		}
		if !strings.HasPrefix(string(raw), "{\n  \"metadata\": {\n    \"total_parameters\": 1810,") || !strings.HasSuffix(string(raw), "}\n") {
			t.Errorf("not as transformers writes it:\n%s", raw)
		}
		whole := filepath.Join(t.TempDir(), "whole.pt")
		run(t, dir, whole, Options{})
		same(t, "testdata/model_dp2_cuda.pth", whole)
		same(t, filepath.Join(dir, base+".index.json"), whole)

		if _, err := Run(context.Background(), "testdata/tied.pt", dir, Options{To: to, MaxShardSize: 1 << 30}); !errors.As(err, new(*ExistsError)) {
			t.Errorf("other weights beside them: %v", err)
		}
	}
	dir := filepath.Join(t.TempDir(), "one")
	if r := run(t, "testdata/tied.pt", dir, Options{MaxShardSize: 1 << 30}); len(r.Files) != 1 || filepath.Base(r.Files[0]) != "model.safetensors" {
		t.Errorf("files %q", r.Files)
	}
}

func TestSplitAsHuggingFaceDoes(t *testing.T) {
	sd := tensor.NewStateDict()
	tied := tensor.FromFloat32(make([]float32, 2), 2)
	for i, n := range []int{6, 6, 2, 6, 2, 2} { // huggingface_hub's own example, in units of 4 bytes
		sd.Set(fmt.Sprint(i), tensor.FromFloat32(make([]float32, n), n))
	}
	sd.Set("big", tensor.FromFloat32(make([]float32, 11), 11))
	sd.Set("tied.a", tied)
	sd.Set("tied.b", tied)
	var got []string
	for _, s := range split(sd, 40) {
		got = append(got, strings.Join(s.Names(), " "))
	}
	if want := []string{"0", "1 2", "big", "3 4 5", "tied.a tied.b"}; !slices.Equal(got, want) {
		t.Errorf("shards %q, want %q", got, want)
	}
}

func TestNothingIsReplacedWithoutForce(t *testing.T) {
	out := filepath.Join(t.TempDir(), "m.safetensors")
	if err := os.WriteFile(out, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	var exists *ExistsError
	if _, err := Run(context.Background(), "testdata/tied.pt", out, Options{}); !errors.As(err, &exists) {
		t.Errorf("err = %v", err)
	}
	if b, _ := os.ReadFile(out); string(b) != "mine" {
		t.Error("it was replaced")
	}
	run(t, "testdata/tied.pt", out, Options{Force: true})
	model(t, out)
	if entries, _ := os.ReadDir(filepath.Dir(out)); len(entries) != 1 {
		t.Errorf("%d files are left", len(entries))
	}
}

func TestRefusals(t *testing.T) {
	opaque := filepath.Join(t.TempDir(), "opaque.pt")
	var b bytes.Buffer
	object := &pyobj.Object{Class: pyobj.Global{Module: "mine", Name: "Config"}, State: pyobj.NewDict("lr", 0.1)}
	if err := torchfile.Write(&b, "x", pyobj.NewDict("model", pyobj.NewDict("w", tensor.FromFloat32([]float32{1}, 1)), "config", object)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(opaque, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	torchRules, err := tensor.ParseMapLocation("none", tensor.TorchRules, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		in, out string
		o       Options
		says    string
	}{
		"unknown class":    {opaque, "a.pt", Options{}, "--model-only"},
		"no format":        {"testdata/tied.pt", "a.xyz", Options{}, "--to safetensors or --to torch"},
		"meta elements":    {"testdata/meta.pt", "a.safetensors", Options{}, "ghost is on the meta device"},
		"torch's rules":    {"testdata/legacy.pth", "a.pt", Options{MapLocation: torchRules}, "Attempting to deserialize object on a CUDA device"},
		"no model":         {"testdata/python_values.pt", "a.safetensors", Options{}, "no tensors are under a name"},
		"no such file":     {"testdata/gone.pt", "a.pt", Options{}, "does not exist"},
		"complex dtypes":   {"testdata/every_dtype.pt", "a.safetensors", Options{}, "complex128"},
		"an integer dtype": {"testdata/tied.pt", "a.pt", Options{DType: tensor.Int8}, "not to int8"},
		"prefix collides":  {"testdata/state_dict.pt", "a.pt", Options{StripPrefix: "nope."}, "do not begin with"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Run(context.Background(), tc.in, filepath.Join(out, tc.out), tc.o)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("err = %v, want %q", err, tc.says)
			}
		})
	}
	if entries, _ := os.ReadDir(out); len(entries) != 0 {
		t.Errorf("%d files are left", len(entries))
	}
	r := run(t, opaque, filepath.Join(out, "m.pt"), Options{ModelOnly: true})
	if !strings.Contains(strings.Join(r.Notes, "\n"), "left out, as no weights: config") {
		t.Errorf("notes %q", r.Notes)
	}
}

func TestEveryFloat8Widens(t *testing.T) {
	out := filepath.Join(t.TempDir(), "w.safetensors")
	run(t, "testdata/float8.safetensors", out, Options{DType: tensor.Float32})
	before, after := model(t, "testdata/float8.safetensors"), model(t, out)
	for _, name := range before.Names() {
		a, _ := before.Get(name)
		b, _ := after.Get(name)
		if b.DType != tensor.Float32 || !a.SameShape(b.Shape) {
			t.Errorf("%s: %v", name, b)
		}
	}
}

func TestSuggestName(t *testing.T) {
	for path, want := range map[string]string{
		"model_dp2_cuda.pth": "model_cpu.safetensors", "out/checkpoint_epoch_1.pth": "out/checkpoint_epoch_1_cpu.safetensors",
		"best_ddp_gpu0.pt": "best_cpu.safetensors", "pytorch_model.bin": "pytorch_model_cpu.safetensors", "x/checkpoint-500/": "x/checkpoint-500_cpu.safetensors",
		"cuda.pth": "model_cpu.safetensors", "pytorch_model.bin.index.json": "pytorch_model_cpu.safetensors", "net.v2": "net.v2_cpu.safetensors",
	} {
		if got := SuggestName(path, Safetensors); got != want {
			t.Errorf("SuggestName(%q) = %q, want %q", path, got, want)
		}
	}
	if got := SuggestName("model_dp2_cuda.pth", Torch); got != "model_cpu.pth" {
		t.Errorf("for torch: %q", got)
	}
}
