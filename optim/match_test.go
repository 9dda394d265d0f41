package optim

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// The state of two groups, weights and biases, resumes in a model whose optimizer has
// one, and the other way: each parameter's moments are its own, the run goes on as it
// would have, and what is written fits the file's script
// (D12, facebookresearch/suncet#36).
func TestLoadRegroupsByShape(t *testing.T) {
	flat := func(params []*Param, o Options) []Group { return []Group{{Options: o, Params: params}} }
	decay := func(params []*Param, o Options) []Group { return DecayGroups(params, o) }
	reversed := func(params []*Param, o Options) []Group {
		params = slices.Clone(params)
		slices.Reverse(params)
		return flat(params, o)
	}
	for _, tc := range []struct {
		name     string
		from, to func([]*Param, Options) []Group
	}{
		{"two groups to one", decay, flat}, {"one group to two", flat, decay}, {"another order", reversed, flat}, {"order and groups", reversed, decay},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := DefaultOptions()
			o.WeightDecay = 0.1
			params, resumedParams := smallNet(), smallNet()
			a, err := NewAdamW(tc.from(params, o))
			if err != nil {
				t.Fatal(err)
			}
			train(params, a, 0, 3)
			o.WeightDecay = 0.7 // the file's wins
			b, err := NewAdamW(tc.to(resumedParams, o))
			if err != nil {
				t.Fatal(err)
			}
			if err := b.LoadStateDict(a.StateDict()); err != nil {
				t.Fatal(err)
			}
			if n := b.Notices(); len(n) != 1 || !strings.Contains(n[0], "matched by shape") {
				t.Errorf("notices are %q", n)
			}
			if !slices.EqualFunc(a.GroupNames(), b.GroupNames(), slices.Equal) || !reflect.DeepEqual(a.StateDict(), b.StateDict()) {
				t.Errorf("groups are %v, want the file's %v", b.GroupNames(), a.GroupNames())
			}
			for i, p := range params {
				copy(resumedParams[i].Values, p.Values)
			}
			train(params, a, 3, 6)
			train(resumedParams, b, 3, 6)
			for i, p := range params {
				sameBits(t, p.Name, resumedParams[i].Values, p.Values)
			}
		})
	}
}

// Two parameters of one shape: which is which cannot be told, so that nothing is loaded
// (D12, facebookresearch/suncet#36).
func TestLoadRefusesAmbiguousShapes(t *testing.T) {
	square := func() []*Param {
		return []*Param{testParam("a.weight", 3, 3), testParam("a.bias", 3), testParam("b.weight", 3, 3), testParam("b.bias", 3)}
	}
	params := square()
	a, err := NewAdamW(DecayGroups(params, DefaultOptions()))
	if err != nil {
		t.Fatal(err)
	}
	train(params, a, 0, 1)
	b, err := NewAdamW([]Group{{Options: DefaultOptions(), Params: square()}})
	if err != nil {
		t.Fatal(err)
	}
	err = b.LoadStateDict(a.StateDict())
	if _, ok := errors.AsType[*LayoutError](err); !ok {
		t.Fatalf("error is %v (%T), want a *LayoutError", err, err)
	}
	for _, want := range []string{"the file has 2 parameter groups, the model has 1", "a.weight and b.weight are both [3 3]", "file:  0 [3 3], 1 [3 3]", "model: a.weight [3 3], a.bias [3], b.weight"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if b.StepCount("a.weight") != 0 || len(b.GroupNames()) != 1 {
		t.Error("the optimizer changed")
	}
}

// torch 2.14's own file with names: the last layer's parameters first
// (D12, facebookresearch/suncet#36).
func TestLoadMatchesByName(t *testing.T) {
	d := readObject(t, "testdata", "adam_named.pt")
	a, err := NewAdam([]Group{{Options: DefaultOptions(), Params: smallNet()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.LoadStateDict(d); err != nil {
		t.Fatal(err)
	}
	if n := a.Notices(); len(n) != 1 || !strings.Contains(n[0], "matched by name") {
		t.Errorf("notices are %q", n)
	}
	if want := [][]string{{"2.weight", "2.bias"}, {"0.weight", "0.bias"}}; !slices.EqualFunc(a.GroupNames(), want, slices.Equal) {
		t.Errorf("groups are %v, want %v", a.GroupNames(), want)
	}
	if got := diff(d, a.StateDict(), "file"); got != "" {
		t.Error(got)
	}
}

// Names win over places even where the shapes would let places pass.
func TestLoadByNameOfEqualShapes(t *testing.T) {
	named := func(names ...string) []*Param {
		params := make([]*Param, len(names))
		for i, name := range names {
			params[i] = testParam(name, 2)
		}
		return params
	}
	params := named("x", "y")
	a, err := NewAdam([]Group{{Options: DefaultOptions(), Params: params}})
	if err != nil {
		t.Fatal(err)
	}
	train(params, a, 0, 1)
	file := func(names ...any) *pyobj.Dict {
		d := a.StateDict()
		at(t, d, "param_groups", 0).(*pyobj.Dict).Set("param_names", &pyobj.List{Items: names})
		return d
	}
	b, err := NewAdam([]Group{{Options: DefaultOptions(), Params: named("y", "x")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.LoadStateDict(file("x", "y")); err != nil {
		t.Fatal(err)
	}
	want, _ := a.Moments("x")
	got, _ := b.Moments("x")
	sameBits(t, "exp_avg of x", got, want)

	for _, tc := range []struct {
		names []any
		want  string
	}{
		{[]any{"x", "z"}, "the model's parameter y is not among those that the file names"},
		{[]any{"x", "x"}, "the model's parameter y is not among those that the file names"},
		{[]any{"x"}, "it has 1 names, the group has 2 parameters"},
		{[]any{"x", int64(3)}, "expected a str, found int"},
	} {
		if err := b.LoadStateDict(file(tc.names...)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("names %v: error is %v, want %q in it", tc.names, err, tc.want)
		}
	}
}

func scalar(dtype tensor.DType, device string, raw ...byte) *tensor.Tensor {
	return &tensor.Tensor{DType: dtype, Shape: []int{}, Stride: []int{}, Storage: &tensor.Storage{Data: raw, Device: device, SavedDevice: device}}
}

// All the forms in which torch has written a step count load as one exact number, and
// are written as float32 of no dimension on the CPU (D13, pytorch/pytorch#74424).
func TestLoadOfEveryStepForm(t *testing.T) {
	float := func(f float32) []byte {
		raw, err := binary.Append(nil, binary.LittleEndian, f)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for _, tc := range []struct {
		name   string
		step   any
		want   int
		notice string
	}{
		{"int", int64(1001), 1001, ""},
		{"float", 1001.0, 1001, ""},
		{"float32", scalar(tensor.Float32, "cpu", float(1001)...), 1001, ""},
		{"int64", scalar(tensor.Int64, "cpu", 0xe9, 3, 0, 0, 0, 0, 0, 0), 1001, ""},
		{"cuda:0", scalar(tensor.Float32, "cuda:0", float(1001)...), 1001, ""},
		{"one dimension", tensor.FromFloat32([]float32{1001}, 1), 1001, ""},
		// 1001 as bfloat16 rounds it: 1000.
		{"bfloat16", scalar(tensor.BFloat16, "cpu", 0x7a, 0x44), 1000, "the step count of 1 parameters, 1000, cannot be exact: bfloat16 counts every step only up to 256, and there only in steps of 4"},
		{"bfloat16 of 200", scalar(tensor.BFloat16, "cpu", 0x48, 0x43), 200, ""},
		{"int64 above float32", scalar(tensor.Int64, "cpu", 1, 0, 0, 1, 0, 0, 0, 0), 1 << 24, "float32 counts every step only up to 1.6777216e+07"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := smallAdam(t, 1)
			a.Step()
			d := a.StateDict()
			at(t, d, "state", 0).(*pyobj.Dict).Set("step", tc.step)
			if err := a.LoadStateDict(d); err != nil {
				t.Fatal(err)
			}
			if got := a.StepCount("w"); got != tc.want {
				t.Errorf("step count is %d, want %d", got, tc.want)
			}
			if text := strings.Join(a.Notices(), "\n"); (text == "") != (tc.notice == "") || !strings.Contains(text, tc.notice) {
				t.Errorf("notices are %q, want %q", text, tc.notice)
			}
			out := at(t, a.StateDict(), "state", 0, "step").(*tensor.Tensor)
			if out.DType != tensor.Float32 || len(out.Shape) != 0 || out.Storage.Device != "cpu" {
				t.Errorf("it is written as %v on %s", out, out.Storage.Device)
			}
		})
	}
	for _, bad := range []any{1.5, tensor.FromFloat32([]float32{1, 2}, 2), -1.0, nil} {
		a := smallAdam(t, 1)
		a.Step()
		d := a.StateDict()
		at(t, d, "state", 0).(*pyobj.Dict).Set("step", bad)
		if err := a.LoadStateDict(d); err == nil {
			t.Errorf("a step count of %v is taken", bad)
		}
	}
}

// A learning rate that was given as a float64 tensor, or as numpy's number, keeps
// its digits (D30, deepmodeling/deepmd-kit#4147).
func TestLoadKeepsFloat64Scalars(t *testing.T) {
	a := smallAdam(t, 1)
	d := a.StateDict()
	raw, err := binary.Append(nil, binary.LittleEndian, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	for _, lr := range []any{
		scalar(tensor.Float64, "cpu", raw...), &pyobj.NumpyScalar{Dtype: "f8", Data: raw, Module: "numpy.core.multiarray"},
	} {
		a.SetLearningRate(0, 1)
		at(t, d, "param_groups", 0).(*pyobj.Dict).Set("lr", lr)
		if err := a.LoadStateDict(d); err != nil || a.LearningRate(0) != 0.1 {
			t.Errorf("of %T: learning rate is %v (%v), want 0.1", lr, a.LearningRate(0), err)
		}
	}
}
