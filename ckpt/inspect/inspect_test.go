package inspect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt"
	"rejoin/ckpt/inspect"
	"rejoin/ckpt/source"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

func report(t *testing.T, path string, o inspect.Options) *inspect.Report {
	t.Helper()
	s, err := source.Open(path, ckpt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := inspect.Inspect(context.Background(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// manifest is what torch says of the files.
type manifest map[string]struct {
	Tensors map[string]struct {
		DType  string `json:"dtype"`
		Shape  []int  `json:"shape"`
		Stride []int  `json:"stride"`
		Offset int    `json:"storage_offset"`
		SHA256 string `json:"sha256"`
	} `json:"tensors"`
	Others     map[string]string `json:"others"`
	DeviceTags []string          `json:"device_tags"`
	Metadata   map[string]string `json:"metadata"`
}

func TestEveryFileIsWhatTorchSees(t *testing.T) {
	var files manifest
	raw, err := os.ReadFile("testdata/torch-files/manifest.json")
	if err == nil {
		err = json.Unmarshal(raw, &files)
	}
	if err != nil || len(files) < 30 {
		t.Fatal(len(files), err)
	}
	for name, want := range files {
		t.Run(name, func(t *testing.T) {
			r := report(t, filepath.Join("testdata/torch-files", name), inspect.Options{Hash: true})
			found := 0
			for _, got := range r.Tensors {
				w, ok := want.Tensors[got.Key]
				if !ok && got.Device == "meta" && got.SHA256 == "" {
					continue // it has no elements to compare
				}
				if fmt.Sprint(got.DType, got.Shape, got.Stride, got.Offset, got.SHA256) != fmt.Sprint(w.DType, w.Shape, w.Stride, w.Offset, w.SHA256) {
					t.Errorf("%s: got %+v, want %+v", got.Key, got, w)
				}
				found++
			}
			if found != len(want.Tensors) {
				t.Errorf("%d tensors, want %d", found, len(want.Tensors))
			}
			if want.DeviceTags != nil && !slices.Equal(r.DeviceTags, want.DeviceTags) {
				t.Errorf("tags %q, want %q", r.DeviceTags, want.DeviceTags)
			}
			if fmt.Sprint(r.Files[0].Metadata) != fmt.Sprint(want.Metadata) {
				t.Errorf("metadata %v, want %v", r.Files[0].Metadata, want.Metadata)
			}
			compareOthers(t, r, want.Others)
		})
	}
}

// compareOthers compares values with Python's repr, where that is one line and
// not of a numpy array, nor of a set, whose order is Python's own.
func compareOthers(t *testing.T, r *inspect.Report, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, o := range r.Others {
		got[o.Key] = o.Value
	}
	compared := 0
	for key, text := range want {
		if strings.HasPrefix(text, "array(") || strings.HasPrefix(text, "{") || strings.HasPrefix(text, "tensor(") || strings.HasPrefix(text, "device(") {
			continue
		}
		compared++
		if v, ok := got[key]; !ok || v != text {
			t.Errorf("%s = %q, want %q", key, v, text)
		}
	}
	if len(want) > 4 && compared == 0 {
		t.Error("nothing was compared")
	}
}

// Foreign tags are shown, and summed up in one line (D02, pytorch/pytorch#15541).
func TestForeignTags(t *testing.T) {
	r := report(t, "testdata/raw-ddp-w2/checkpoint_epoch_1.pth", inspect.Options{})
	if want := "16 of 16 storages were saved on other devices (cuda:0 × 8, cuda:1 × 8)"; r.ForeignTags != want {
		t.Errorf("got %q", r.ForeignTags)
	}
	if len(r.Optimizers) != 1 || r.Optimizers[0].Kind != "Adam" || r.Optimizers[0].Key != "optimizer_state_dict" ||
		!slices.Equal(r.Optimizers[0].Moments, []string{"exp_avg", "exp_avg_sq"}) || !slices.Equal(r.Optimizers[0].Steps, []float64{20}) {
		t.Errorf("optimizers: %+v", r.Optimizers)
	}
}

// A view takes fewer bytes than its storage, which is counted once
// (D07, pytorch/pytorch#40157).
func TestViewedAndStoredBytes(t *testing.T) {
	parent := &tensor.Storage{Data: make([]byte, 4*10000)}
	view := func(offset int, shape, stride []int) *tensor.Tensor {
		return &tensor.Tensor{DType: tensor.Float32, Shape: shape, Stride: stride, Offset: offset, Storage: parent}
	}
	a := view(50, []int{2, 10}, []int{10, 1})
	var b bytes.Buffer
	if err := torchfile.Write(&b, "x", pyobj.NewDict("a", a, "b", view(0, []int{10, 1000}, []int{1, 10}), "c", view(7, nil, nil), "tie", a)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.pt")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r := report(t, path, inspect.Options{})
	for i, want := range []struct {
		key, ties, shares string
		bytes             int64
	}{{"a", "", "", 80}, {"b", "", "a", 40000}, {"c", "", "a", 4}, {"tie", "a", "", 80}} {
		got := r.Tensors[i]
		if got.Key != want.key || got.Bytes != want.bytes || got.StoredBytes != 40000 || got.TiedTo != want.ties || got.SharesWith != want.shares {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if r.Totals.StoredBytes != 40000 {
		t.Errorf("stored: %d", r.Totals.StoredBytes)
	}
}

// Every form that a step count has had is read (D13, pytorch/pytorch#74424).
func TestStepsInEveryForm(t *testing.T) {
	cell := func(d tensor.DType, raw ...byte) *tensor.Tensor {
		return &tensor.Tensor{DType: d, Storage: &tensor.Storage{Data: raw}}
	}
	for name, step := range map[string]any{
		"int": int64(1001), "float32": tensor.FromFloat32([]float32{1001}), "int64": cell(tensor.Int64, 0xe9, 3, 0, 0, 0, 0, 0, 0),
		"float64": cell(tensor.Float64, 0, 0, 0, 0, 0, 0x48, 0x8f, 0x40),
	} {
		var b bytes.Buffer
		state := pyobj.NewDict(0, pyobj.NewDict("step", step, "exp_avg", tensor.FromFloat32([]float32{1}, 1), "exp_avg_sq", tensor.FromFloat32([]float32{1}, 1)))
		groups := &pyobj.List{Items: []any{pyobj.NewDict("lr", 0.1, "params", &pyobj.List{Items: []any{0}})}}
		if err := torchfile.Write(&b, "o", pyobj.NewDict("state", state, "param_groups", groups)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "o.pt")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := report(t, path, inspect.Options{}); len(r.Optimizers) != 1 || !slices.Equal(r.Optimizers[0].Steps, []float64{1001}) || r.Optimizers[0].Kind != "Adam or AdamW" {
			t.Errorf("%s: %+v", name, r.Optimizers)
		}
	}
}

func TestTextForPeople(t *testing.T) {
	var b bytes.Buffer
	mark := func(s string) string { return "<" + s + ">" }
	r := report(t, "testdata/raw-ddp-w2/checkpoint_epoch_1.pth", inspect.Options{})
	if err := r.WriteText(&b, inspect.Style{Heading: mark, Warning: mark}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"<checkpoint_epoch_1.pth: zip, torch later than 2.6, or Rejoin, 28.0 kB>\n",
		"  model_state_dict\n    module.backbone.0.weight  float32  [24 64]  6.1 kB  cuda:1\n",
		"described, not run", "optimizer optimizer_state_dict: Adam; 4 parameters with exp_avg, exp_avg_sq; step 20",
		"group 0: 4 parameters, lr 0.004, weight_decay 0, betas (0.9, 0.999), eps 1e-08",
		"<16 of 16 storages were saved on other devices (cuda:0 × 8, cuda:1 × 8); they load on the CPU>\n",
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is not in:\n%s", part, b.String())
		}
	}
}

// A part that cannot be read hides none of the others.
func TestDirectoryWithADamagedFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoint-2")
	if err := os.CopyFS(dir, os.DirFS("../../testdata/regression-w2/checkpoint-2")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "optimizer.pt"), []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Dir(dir)} {
		s, err := source.Open(path, ckpt.Options{})
		if path != dir { // a run without a complete checkpoint
			if err == nil || !strings.Contains(err.Error(), "no complete checkpoint") {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r, err := inspect.Inspect(context.Background(), s, inspect.Options{Hash: true})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Damaged() || r.Kind != "checkpoint" {
			t.Error("the damage does not show")
		}
		var names []string
		for _, f := range r.Files {
			names = append(names, f.Name)
			if f.Name == "optimizer.pt" && !strings.Contains(f.Error, "Git-LFS") {
				t.Errorf("optimizer.pt: %q", f.Error)
			}
		}
		if want := []string{"model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth", "training_args.bin", "trainer_state.json"}; !slices.Equal(names, want) {
			t.Errorf("files %q", names)
		}
		opaque := slices.ContainsFunc(r.Others, func(o inspect.Other) bool {
			return o.File == "training_args.bin" && o.Opaque && strings.HasSuffix(o.Type, "TrainingArguments")
		})
		if !opaque {
			t.Error("training_args.bin is not shown as an opaque object")
		}
	}
}

func TestHashingStopsWhenAsked(t *testing.T) {
	s, err := source.Open("testdata/torch-files/views.pt", ckpt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	_, err = inspect.Inspect(ctx, s, inspect.Options{Hash: true, Progress: func(done, total int64) {
		calls++
		if done <= 0 || done > total {
			t.Errorf("%d of %d", done, total)
		}
		cancel()
	}})
	if err == nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func ExampleReport_WriteText() {
	s, err := source.Open("testdata/torch-files/tied.pt", ckpt.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := inspect.Inspect(context.Background(), s, inspect.Options{})
	if err == nil {
		err = r.WriteText(os.Stdout, inspect.Style{})
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// tied.pt: zip, torch later than 2.6, or Rejoin, 1.8 kB
	//   embed.weight    float32  [7 9]  252 B  cpu
	//   lm_head.weight  float32  [7 9]  252 B  cpu  tied to embed.weight
	// 504 B in 2 tensors, 126 elements; 252 B stored
}

// A dtype that is not known hides nothing: it is listed, hashed, and compared as bytes
// (D06, huggingface/candle#2875).
func TestUnknownDType(t *testing.T) {
	header := `{"odd":{"dtype":"F4","shape":[4],"data_offsets":[0,2]},"w":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}`
	for len(header)%8 != 0 {
		header += " "
	}
	path := filepath.Join(t.TempDir(), "f4.safetensors")
	if err := os.WriteFile(path, []byte(string([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0})+header+"ab\x00\x00\x80\x3f"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := report(t, path, inspect.Options{Hash: true})
	if len(r.Tensors) != 2 || r.Tensors[1].Key != "odd" || r.Tensors[1].DType != "F4" ||
		r.Tensors[1].SHA256 != "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603" || r.Totals.Bytes != 6 {
		t.Errorf("%+v", r)
	}
}
