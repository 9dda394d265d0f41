package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rejoin/ckpt"
	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/source"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

func raw(d tensor.DType, data []byte, shape ...int) *tensor.Tensor {
	return &tensor.Tensor{DType: d, Shape: shape, Stride: tensor.ContiguousStride(shape), Storage: &tensor.Storage{Data: data}}
}

func floats(v ...float32) *tensor.Tensor { return tensor.FromFloat32(v, len(v)) }

func TestElements(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	negZero := float32(math.Copysign(0, -1))
	next := math.Nextafter32(1, 2)
	for name, tc := range map[string]struct {
		a, b *tensor.Tensor
		tol  Tolerance
		want string // count maxabs maxrel maxulp first a b; "" for equal
	}{
		"equal":                {a: floats(1, nan), b: floats(1, nan)},
		"one ULP":              {a: floats(0, 1), b: floats(0, next), want: "1 1.1920928955078125e-07 1.1920927533992823e-07 1 [1] 1 1.0000001"},
		"two elements":         {a: floats(1, 2, 4), b: floats(1, 3, 8), want: "2 4 0.5 8388608 [1] 2 3"},
		"across zero":          {a: floats(math.Float32frombits(1)), b: floats(-math.Float32frombits(1)), want: "1 2.802596928649634e-45 2 2 [0] 1e-45 -1e-45"},
		"zeros of two signs":   {a: floats(0), b: floats(negZero), want: "1 0 0 0 [0] 0 -0"},
		"NaN against number":   {a: floats(nan), b: floats(1), want: "1 +Inf +Inf -1 [0] NaN 1"},
		"infinite":             {a: floats(inf), b: floats(1), want: "1 +Inf +Inf 1073741824 [0] +Inf 1"},
		"within the tolerance": {a: floats(1, nan, negZero), b: floats(next, nan, 0), tol: Tolerance{Rel: 1e-6}},
		"beyond the tolerance": {a: floats(1, 2), b: floats(1.5, 2), tol: Tolerance{Abs: 0.1}, want: "1 0.5 0.3333333333333333 4194304 [0] 1 1.5"},
		"bfloat16":             {a: raw(tensor.BFloat16, []byte{0x80, 0x3f}, 1), b: raw(tensor.BFloat16, []byte{0x82, 0x3f}, 1), want: "1 0.015625 0.015384615384615385 2 [0] 1 1.015625"},
		"float8":               {a: raw(tensor.Float8E4M3FN, []byte{0x38}, 1), b: raw(tensor.Float8E4M3FN, []byte{0x39}, 1), want: "1 0.125 0.1111111111111111 1 [0] 1 1.125"},
		"int64 beyond 2^53":    {a: raw(tensor.Int64, []byte{0, 0, 0, 0, 0, 0, 0, 0x40}, 1), b: raw(tensor.Int64, []byte{1, 0, 0, 0, 0, 0, 0, 0x40}, 1), want: "1 1 0 -1 [0] 4611686018427387904 4611686018427387905"},
		"bool":                 {a: raw(tensor.Bool, []byte{1}), b: raw(tensor.Bool, []byte{0}), want: "1 1 1 -1 [] True False"},
		"complex":              {a: raw(tensor.Complex64, make([]byte, 16), 2), b: raw(tensor.Complex64, append(make([]byte, 12), 0, 0, 0x80, 0x3f), 2), want: "1 1 1 1065353216 [1] (0+0j) (0+1j)"},
		"dtypes, equal values": {a: floats(1, 2), b: raw(tensor.BFloat16, []byte{0x80, 0x3f, 0, 0x40}, 2), want: "0 0 0 -1 []  "},
		"dtypes and values":    {a: floats(1.001), b: raw(tensor.BFloat16, []byte{0x80, 0x3f}, 1), want: "1 0.001000046730041504 0.0009990476357202463 -1 [0] 1.001 1"},
		"a view": {
			a:    &tensor.Tensor{DType: tensor.Float32, Shape: []int{2, 2}, Stride: []int{1, 2}, Storage: floats(1, 2, 3, 4).Storage},
			b:    tensor.FromFloat32([]float32{1, 3, 2, 5}, 2, 2),
			want: "1 1 0.2 2097152 [1 1] 4 5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := differ(tc.a, tc.b, tc.tol)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if d != nil {
				got = fmt.Sprintf("%d %v %v %d %v %s %s", d.Count, d.MaxAbs, d.MaxRel, d.MaxULP, d.First, d.FirstA, d.FirstB)
			}
			if got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
	if _, err := differ(floats(1), raw(tensor.Complex64, make([]byte, 8), 1), Tolerance{}); err == nil {
		t.Error("a real and a complex tensor were compared")
	}
}

func write(t *testing.T, dir, name string, obj any) string {
	t.Helper()
	var b bytes.Buffer
	var err error
	if sd, ok := obj.(*tensor.StateDict); ok {
		err = safetensors.Write(&b, sd, nil)
	} else {
		err = torchfile.Write(&b, "x", obj)
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func diff(t *testing.T, a, b string, o Options) *Result {
	t.Helper()
	var s [2]*source.Source
	for i, path := range []string{a, b} {
		var err error
		if s[i], err = source.Open(path, ckpt.Options{}); err != nil {
			t.Fatal(err)
		}
		defer s[i].Close()
	}
	r, err := Compare(context.Background(), s[0], s[1], o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func kinds(r *Result) string {
	var out []string
	for _, e := range r.Entries {
		out = append(out, e.Key+" "+string(e.Kind))
	}
	return strings.Join(out, ", ")
}

func TestFilesByKey(t *testing.T) {
	dir := t.TempDir()
	words := func(last int64) *pyobj.List {
		l := &pyobj.List{}
		for i := range int64(50) {
			l.Items = append(l.Items, i)
		}
		l.Items[49] = last
		return l
	}
	a := write(t, dir, "a.pt", pyobj.NewDict("w", floats(1, 2), "b", floats(1), "s", floats(1, 2), "gone", floats(1), "lr", 0.1, "n", int64(1), "words", words(1), "name", "x", "nan", math.NaN()))
	b := write(t, dir, "b.pt", pyobj.NewDict("w", floats(1, 2), "b", floats(2), "s", tensor.FromFloat32([]float32{1, 2}, 2, 1), "new", nil, "lr", 0.2, "n", 1.0, "words", words(2), "name", "x", "nan", math.NaN()))
	r := diff(t, a, b, Options{})
	if want := "b values, s shape, gone only in a, lr values, n values, words values, new only in b"; kinds(r) != want || r.Equal {
		t.Errorf("got  %s\nwant %s", kinds(r), want)
	}
	if same := diff(t, a, a, Options{}); !same.Equal || same.Tensors != 4 || same.Others != 5 {
		t.Errorf("a file and itself: %+v", same)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text, strings.ToUpper); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"KEY", "1 of 1 elements", "[0]: 1 ≠ 2", "shape: float32[2] ≠ float32[2 1]", "only in the first", "0.1 ≠ 0.2", "DIFFERENT: THE ELEMENTS OR DTYPES OF 1 OF 3 TENSORS"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%q is not in:\n%s", part, text.String())
		}
	}
}

// A directory's weights are compared whatever files hold them, and a file with
// a directory by its model.
func TestWeightsInAnyForm(t *testing.T) {
	trainer := "../../testdata/regression-w2/checkpoint-2"
	if r := diff(t, trainer, trainer, Options{}); !r.Equal || r.Tensors < 8 || r.Others < 100 {
		t.Errorf("a checkpoint and itself: %s, %d tensors, %d others", kinds(r), r.Tensors, r.Others)
	}
	r := diff(t, trainer, "../../testdata/regression-w2/checkpoint-4", Options{})
	files := map[string]bool{}
	for _, e := range r.Entries {
		files[e.File] = true
	}
	for _, name := range []string{"weights", "optimizer.pt", "scheduler.pt", "trainer_state.json"} {
		if !files[name] {
			t.Errorf("nothing differs in %s", name)
		}
	}
	f, err := safetensors.Open(filepath.Join(trainer, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	wrapped := pyobj.NewDict()
	for _, name := range f.StateDict().Names() {
		w, _ := f.StateDict().Get(name)
		wrapped.Set("module."+name, w)
	}
	path := write(t, t.TempDir(), "model.pth", pyobj.NewDict("state_dict", wrapped))
	r = diff(t, path, trainer, Options{})
	if r.Equal || !strings.Contains(strings.Join(r.Notes, "\n"), `begins with "module."`) {
		t.Errorf("no hint: %q", r.Notes)
	}
	if r = diff(t, path, trainer, Options{Peel: true}); !r.Equal || r.Tensors != 2 {
		t.Errorf("peeled: %s", kinds(r))
	}
}

func TestPartsThatCannotBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoint-2")
	if err := os.CopyFS(dir, os.DirFS("../../testdata/regression-w2/checkpoint-2")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "optimizer.pt"), 100); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "rng_state_1.pth")); err != nil {
		t.Fatal(err)
	}
	r := diff(t, "../../testdata/regression-w2/checkpoint-2", dir, Options{})
	var got []string
	for _, e := range r.Entries {
		got = append(got, e.File+" "+string(e.Kind))
	}
	if want := "optimizer.pt unreadable,rng_state_1.pth only in a"; strings.Join(got, ",") != want {
		t.Errorf("got %q", got)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text, nil); err != nil || !strings.Contains(text.String(), "the second cannot be read") {
		t.Errorf("%v:\n%s", err, text.String())
	}
}

func TestValues(t *testing.T) {
	bomb := any("x")
	for range 60 {
		bomb = &pyobj.List{Items: []any{bomb, bomb}}
	}
	call := func(arg any) *pyobj.Object {
		return &pyobj.Object{Class: pyobj.Global{Module: "m", Name: "C"}, Args: &pyobj.Tuple{Items: []any{arg}}, Called: true}
	}
	set := func(items ...any) *pyobj.Set { return &pyobj.Set{Items: items} }
	for i, tc := range []struct {
		a, b any
		same bool
	}{
		{nil, nil, true},
		{nil, false, false},
		{int64(1), true, false},
		{int64(1), 1.0, false},
		{0.0, math.Copysign(0, -1), false},
		{pyobj.Bytes("a"), "a", false},
		{pyobj.Size{1}, pyobj.Size{1}, true},
		{set(int64(1), int64(2)), set(int64(2), int64(1)), true},
		{set(int64(1)), set(int64(2)), false},
		{call("no"), call("no"), true},
		{call("no"), call("steps"), false},
		{call(bomb), call(bomb), false},
		{&pyobj.NDArray{Shape: []int{1}, Dtype: "u1", Data: []byte{1}}, &pyobj.NDArray{Shape: []int{1}, Dtype: "u1", Data: []byte{2}}, false},
		{&pyobj.NDArray{Dtype: "u1", Module: "numpy.core.multiarray"}, &pyobj.NDArray{Dtype: "u1", Module: "numpy._core.multiarray"}, true},
		{tensor.Float32, tensor.Float32, true},
		{[]any{}, []any{}, true},
		{&pyobj.List{}, &pyobj.Tuple{}, false},
		{pyobj.NewDict(), pyobj.NewDict(), true},
		{map[string]any{}, []any{}, false},
	} {
		if got := sameValue(tc.a, tc.b); got != tc.same {
			t.Errorf("case %d: %v", i, got)
		}
	}
}

func TestJSONHoldsInfinities(t *testing.T) {
	d, err := differ(floats(float32(math.Inf(1))), floats(1), Tolerance{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(d)
	if err != nil || !strings.Contains(string(out), `"max_abs":null`) {
		t.Errorf("%s, %v", out, err)
	}
}
