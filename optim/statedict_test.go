package optim

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// mlp makes the parameters of a small model and its AdamW, in the Trainer's groups.
func mlp(t *testing.T, change func(*Options)) ([]*Param, *Adam) {
	t.Helper()
	params := []*Param{
		testParam("backbone.0.weight", 6, 5), testParam("backbone.0.bias", 6),
		testParam("backbone.2.weight", 3, 6), testParam("backbone.2.bias", 3),
	}
	o := DefaultOptions()
	o.WeightDecay, o.Implementation = 0.05, Fused
	if change != nil {
		change(&o)
	}
	a, err := NewAdamW(DecayGroups(params, o))
	if err != nil {
		t.Fatal(err)
	}
	return params, a
}

func train(params []*Param, a *Adam, from, to int) {
	for step := from; step < to; step++ {
		setGrads(params, step)
		a.Step()
	}
}

// at follows keys and indices through a state dict.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, key := range path {
		switch c := v.(type) {
		case *pyobj.Dict:
			var ok bool
			if v, ok = c.Get(key); !ok {
				t.Fatalf("key %v of %v is missing", key, path)
			}
		case *pyobj.List:
			v = c.Items[key.(int)]
		default:
			t.Fatalf("%v is a %s", path, pyobj.TypeName(v))
		}
	}
	return v
}

func TestStateDictBeforeTheFirstStep(t *testing.T) {
	_, a := mlp(t, nil)
	d := a.StateDict()
	if n := at(t, d, "state").(*pyobj.Dict).Len(); n != 0 {
		t.Errorf("state has %d entries before the first step", n)
	}
	if err := a.LoadStateDict(d); err != nil {
		t.Errorf("loading it: %v", err)
	}
}

func TestStateDictLayout(t *testing.T) {
	params, a := mlp(t, func(o *Options) { o.AMSGrad = true })
	train(params, a, 0, 3)
	d := a.StateDict()
	// Weights are parameters 0 and 1, biases 2 and 3: the groups come first.
	for i, want := range [][]int{{6, 5}, {3, 6}, {6}, {3}} {
		for _, key := range []string{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"} {
			m := at(t, d, "state", i, key).(*tensor.Tensor)
			if m.DType != tensor.Float32 || !m.SameShape(want) || !m.IsContiguous() || m.Storage.Device != "cpu" {
				t.Errorf("%s of parameter %d is %v on %q, want float32%v on cpu", key, i, m, m.Storage.Device, want)
			}
		}
		step := at(t, d, "state", i, "step").(*tensor.Tensor)
		if got, err := readScalar(step); err != nil || got != 3 || len(step.Shape) != 0 || step.DType != tensor.Float32 {
			t.Errorf("step of parameter %d is %v %v (%v), want float32[] 3", i, step, got, err)
		}
	}
	want := [][]any{{int64(0), int64(1)}, {int64(2), int64(3)}}
	for i := range want {
		if got := at(t, d, "param_groups", i, "params").(*pyobj.List).Items; !slices.Equal(got, want[i]) {
			t.Errorf("group %d has parameters %v, want %v", i, got, want[i])
		}
	}
	for key, want := range map[string]any{
		"lr": 1e-3, "eps": 1e-8, "weight_decay": 0.05, "amsgrad": true, "maximize": false, "foreach": nil,
		"capturable": false, "differentiable": false, "fused": true, "decoupled_weight_decay": true,
	} {
		if got := at(t, d, "param_groups", 0, key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if got := at(t, d, "param_groups", 1, "weight_decay"); got != 0.0 {
		t.Errorf("weight decay of the second group is %v, want 0.0", got)
	}
	if got := at(t, d, "param_groups", 0, "betas").(*pyobj.Tuple).Items; !slices.Equal(got, []any{0.9, 0.999}) {
		t.Errorf("betas are %v", got)
	}
}

func TestStateDictIsACopy(t *testing.T) {
	params, a := mlp(t, nil)
	train(params, a, 0, 1)
	d := a.StateDict()
	before := slices.Clone(at(t, d, "state", 0, "exp_avg").(*tensor.Tensor).Storage.Data)
	train(params, a, 1, 2)
	if !slices.Equal(before, at(t, d, "state", 0, "exp_avg").(*tensor.Tensor).Storage.Data) {
		t.Error("a later step changed the state dict")
	}
}

// A run that loads its state from step k and goes on equals the run that never stopped.
func TestResumeEqualsUninterrupted(t *testing.T) {
	for _, implementation := range []Implementation{SingleTensor, Fused, Foreach} {
		for _, amsgrad := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/%v", implementation, amsgrad), func(t *testing.T) {
				set := func(o *Options) { o.Implementation, o.AMSGrad = implementation, amsgrad }
				params, a := mlp(t, set)
				train(params, a, 0, 4)
				saved := a.StateDict()
				resumedParams, resumed := mlp(t, nil) // its options come from the file
				for i, p := range params {
					copy(resumedParams[i].Values, p.Values)
				}
				if err := resumed.LoadStateDict(saved); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(resumed.StateDict(), saved) {
					t.Fatal("the state dict read back is not the same")
				}
				train(params, a, 4, 9)
				train(resumedParams, resumed, 4, 9)
				for i, p := range params {
					sameBits(t, p.Name, resumedParams[i].Values, p.Values)
				}
				if !reflect.DeepEqual(resumed.StateDict(), a.StateDict()) {
					t.Error("the states differ at the end")
				}
			})
		}
	}
}

func TestLoadTakesOptionsFromTheFile(t *testing.T) {
	params, a := mlp(t, func(o *Options) {
		*o = Options{LR: 0.5, Beta1: 0.7, Beta2: 0.8, Eps: 0.1, WeightDecay: 0.3, AMSGrad: true, Maximize: true, Implementation: Foreach}
	})
	train(params, a, 0, 1)
	_, b := mlp(t, nil)
	if err := b.LoadStateDict(a.StateDict()); err != nil {
		t.Fatal(err)
	}
	for i := range a.NumGroups() {
		if b.Options(i) != a.Options(i) {
			t.Errorf("group %d has options %+v, want the file's %+v", i, b.Options(i), a.Options(i))
		}
	}
	if b.LearningRate(0) != 0.5 {
		t.Errorf("learning rate is %v, want the file's 0.5", b.LearningRate(0))
	}
}

// oldGroup is a group as torch 1.11 wrote it.
func oldGroup(numbers ...any) *pyobj.Dict {
	return pyobj.NewDict("lr", 0.01, "betas", &pyobj.Tuple{Items: []any{0.9, 0.999}}, "eps", 1e-8,
		"weight_decay", int64(0), "amsgrad", false, "params", &pyobj.List{Items: numbers})
}

func TestLoadOldFile(t *testing.T) {
	double := &tensor.Tensor{
		DType: tensor.Float64, Shape: []int{2}, Stride: []int{1},
		Storage: &tensor.Storage{Data: []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40}, Device: "cpu"},
	}
	d := pyobj.NewDict(
		"state", pyobj.NewDict(int64(4), pyobj.NewDict(
			"step", int64(7), "exp_avg", double, "exp_avg_sq", tensor.FromFloat32([]float32{3, 4}, 2), "note", double)),
		"param_groups", &pyobj.List{Items: []any{oldGroup(int64(4))}},
	)
	a := smallAdam(t, 1)
	if err := a.LoadStateDict(d); err != nil {
		t.Fatal(err)
	}
	s := a.groups[0].parameters[0].state
	if s.step != 7 || !slices.Equal(s.expAvg, []float32{1, 2}) || !slices.Equal(s.expAvgSq, []float32{3, 4}) {
		t.Errorf("state is step %v, %v, %v", s.step, s.expAvg, s.expAvgSq)
	}
	clear(double.Storage.Data) // the file is gone

	out := a.StateDict()
	var keys []string
	for _, e := range at(t, out, "param_groups", 0).(*pyobj.Dict).Entries() {
		keys = append(keys, e.Key.(string))
	}
	want := []string{"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach", "capturable", "differentiable", "decoupled_weight_decay", "fused", "params"}
	if !slices.Equal(keys, want) {
		t.Errorf("keys are\n%v, want\n%v", keys, want)
	}
	if got := at(t, out, "param_groups", 0, "decoupled_weight_decay"); got != true {
		t.Error("an AdamW's weight decay is not decoupled")
	}
	if got := at(t, out, "param_groups", 0, "weight_decay"); got != int64(0) {
		t.Errorf("weight_decay became %v (%s)", got, pyobj.TypeName(got))
	}
	note := at(t, out, "state", 0, "note").(*tensor.Tensor)
	if note.Storage.Data[6] != 0xf0 {
		t.Error("an unknown tensor of the state was not kept as a copy")
	}
}

func TestLoadKeepsUnknownGroupKeys(t *testing.T) {
	g := oldGroup(int64(0))
	g.Set("param_names", &pyobj.List{Items: []any{"w"}})
	g.Set("lr_scale", 0.5)
	d := pyobj.NewDict("state", pyobj.NewDict(), "param_groups", &pyobj.List{Items: []any{g}})
	a := smallAdam(t, 1)
	if err := a.LoadStateDict(d); err != nil {
		t.Fatal(err)
	}
	out := a.StateDict()
	if got := at(t, out, "param_groups", 0, "param_names", 0); got != "w" {
		t.Errorf("param_names holds %v", got)
	}
	if got := at(t, out, "param_groups", 0, "lr_scale"); got != 0.5 {
		t.Errorf("lr_scale is %v", got)
	}
}

// Adam, unlike AdamW, takes the kind of weight decay from the file, as torch does.
func TestAdamTakesDecoupledFromTheFile(t *testing.T) {
	from := smallAdam(t, 1)
	a, err := NewAdam([]Group{{Options: DefaultOptions(), Params: []*Param{testParam("w", 2)}}})
	if err != nil {
		t.Fatal(err)
	}
	if a.groups[0].decoupled {
		t.Error("Adam's weight decay is decoupled from the start")
	}
	if err := a.LoadStateDict(from.StateDict()); err != nil {
		t.Fatal(err)
	}
	if !a.groups[0].decoupled {
		t.Error("decoupled_weight_decay of the file was not taken")
	}
}

func TestLoadTensorOptions(t *testing.T) {
	g := oldGroup(int64(0))
	g.Set("lr", tensor.FromFloat32([]float32{0.25}))
	a := smallAdam(t, 1)
	if err := a.LoadStateDict(pyobj.NewDict("state", pyobj.NewDict(), "param_groups", &pyobj.List{Items: []any{g}})); err != nil {
		t.Fatal(err)
	}
	if a.LearningRate(0) != 0.25 {
		t.Errorf("learning rate is %v, want 0.25", a.LearningRate(0))
	}
}

func TestLoadRefuses(t *testing.T) {
	two := tensor.FromFloat32([]float32{1, 2}, 2)
	group := func(change func(g *pyobj.Dict)) func(d *pyobj.Dict) {
		return func(d *pyobj.Dict) { change(at(t, d, "param_groups", 0).(*pyobj.Dict)) }
	}
	state := func(change func(s *pyobj.Dict)) func(d *pyobj.Dict) {
		return func(d *pyobj.Dict) { change(at(t, d, "state", 0).(*pyobj.Dict)) }
	}
	for _, tc := range []struct {
		name   string
		change func(d *pyobj.Dict)
		want   string
	}{
		{"no groups", func(d *pyobj.Dict) { *d = *pyobj.NewDict("state", pyobj.NewDict(), "lr", 1.0) }, `not an optimizer's state dict: key "param_groups" is missing; it has "state", "lr"`},
		{"no state", func(d *pyobj.Dict) { *d = *pyobj.NewDict("param_groups", &pyobj.List{}) }, `key "state" is missing`},
		{"nothing", func(d *pyobj.Dict) { *d = *pyobj.NewDict() }, "it has no keys"},
		{"state is a list", func(d *pyobj.Dict) { d.Set("state", &pyobj.List{}) }, "state: expected a dict, found list"},
		{"groups are a dict", func(d *pyobj.Dict) { d.Set("param_groups", pyobj.NewDict()) }, "param_groups: expected a list, found dict"},
		{"group is None", func(d *pyobj.Dict) { d.Set("param_groups", &pyobj.List{Items: []any{nil}}) }, "param_groups[0]: expected a dict, found None"},
		{"SGD", group(func(g *pyobj.Dict) { *g = *pyobj.NewDict("lr", 0.1, "momentum", 0.9, "params", &pyobj.List{}) }), "param_groups[0]: this is the state of SGD, expected Adam's"},
		{"lr is text", group(func(g *pyobj.Dict) { g.Set("lr", "fast") }), `param_groups[0]["lr"]: expected a number, found str`},
		{"lr is negative", group(func(g *pyobj.Dict) { g.Set("lr", -1.0) }), "param_groups[0]: lr is -1"},
		{"lr is two", group(func(g *pyobj.Dict) { g.Set("lr", two) }), `param_groups[0]["lr"]: expected one element, found float32[2]`},
		{"one beta", group(func(g *pyobj.Dict) { g.Set("betas", &pyobj.Tuple{Items: []any{0.9}}) }), `param_groups[0]["betas"]: expected two numbers, found 1`},
		{"betas are text", group(func(g *pyobj.Dict) { g.Set("betas", &pyobj.Tuple{Items: []any{"a", "b"}}) }), `param_groups[0]["betas"]: expected a number, found str`},
		{"fused and foreach", group(func(g *pyobj.Dict) { g.Set("foreach", true); g.Set("fused", true) }), `param_groups[0]["fused"]: it and "foreach" cannot both be true`},
		{"flag is text", group(func(g *pyobj.Dict) { g.Set("amsgrad", "no") }), `param_groups[0]["amsgrad"]: expected an int, found str`},
		{"params are missing", group(func(g *pyobj.Dict) { *g = *pyobj.NewDict("lr", 1.0) }), `param_groups[0]["params"]: is missing`},
		{"params are text", group(func(g *pyobj.Dict) { g.Set("params", "0") }), `param_groups[0]["params"]: expected a list, found str`},
		{"params hold text", group(func(g *pyobj.Dict) { g.Set("params", &pyobj.List{Items: []any{"w"}}) }), `param_groups[0]["params"]: expected an int, found str`},
		{"params repeat", group(func(g *pyobj.Dict) { g.Set("params", &pyobj.List{Items: []any{int64(0), int64(0)}}) }), `param_groups[0]["params"]: parameter 0 is listed twice`},
		{"initial_lr is text", group(func(g *pyobj.Dict) { g.Set("initial_lr", "x") }), `param_groups[0]["initial_lr"]: expected a number, found str`},
		{"state left over", func(d *pyobj.Dict) { at(t, d, "state").(*pyobj.Dict).Set(int64(9), pyobj.NewDict()) }, "state: it has an entry 9 that no parameter group lists"},
		{"state of a huge index", func(d *pyobj.Dict) { at(t, d, "state").(*pyobj.Dict).Set(new(big.Int).Lsh(big.NewInt(1), 80), nil) }, "that no parameter group lists"},
		{"entry is a list", func(d *pyobj.Dict) { at(t, d, "state").(*pyobj.Dict).Set(int64(0), &pyobj.List{}) }, "state[0]: expected a dict, found list"},
		{"SGD's state", state(func(s *pyobj.Dict) { *s = *pyobj.NewDict("momentum_buffer", two) }), `state[0]["exp_avg"]: is missing; the state has "momentum_buffer", which is not Adam's`},
		{"no step", state(func(s *pyobj.Dict) { *s = *pyobj.NewDict("exp_avg", two, "exp_avg_sq", two) }), `state[0]["step"]: is missing`},
		{"step is negative", state(func(s *pyobj.Dict) { s.Set("step", int64(-1)) }), `state[0]["step"]: -1 is not a step count`},
		{"step is text", state(func(s *pyobj.Dict) { s.Set("step", "1") }), `state[0]["step"]: expected a number, found str`},
		{"exp_avg is a float", state(func(s *pyobj.Dict) { s.Set("exp_avg", 1.0) }), `state[0]["exp_avg"]: expected a tensor, found float`},
		{"no exp_avg_sq", state(func(s *pyobj.Dict) { *s = *pyobj.NewDict("step", int64(1), "exp_avg", two) }), `state[0]["exp_avg_sq"]: is missing`},
		{"exp_avg_sq of another shape", state(func(s *pyobj.Dict) { s.Set("exp_avg_sq", tensor.FromFloat32([]float32{1}, 1)) }), `state[0]["exp_avg_sq"]: has shape [1], expected [2] of parameter "w"`},
		{"amsgrad without its state", group(func(g *pyobj.Dict) { g.Set("amsgrad", true) }), `state[0]["max_exp_avg_sq"]: is missing`},
		{"exp_avg out of its storage", state(func(s *pyobj.Dict) {
			s.Set("exp_avg", &tensor.Tensor{DType: tensor.Float32, Shape: []int{2}, Stride: []int{1 << 40}, Storage: two.Storage})
		}), `state[0]["exp_avg"]: shape [2]`},
		{"exp_avg on meta", state(func(s *pyobj.Dict) {
			s.Set("exp_avg", &tensor.Tensor{DType: tensor.Float32, Shape: []int{2}, Stride: []int{1}, Meta: true})
		}), "meta device"},
		{"exp_avg is complex", state(func(s *pyobj.Dict) {
			s.Set("exp_avg", &tensor.Tensor{DType: tensor.Complex64, Shape: []int{2}, Stride: []int{1}, Storage: &tensor.Storage{Data: make([]byte, 16)}})
		}), "cannot read complex64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := smallAdam(t, 1e-3)
			a.Step()
			before := a.StateDict()
			d := a.StateDict()
			tc.change(d)
			err := a.LoadStateDict(d)
			if _, ok := errors.AsType[*StateError](err); !ok || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v (%T), want %q in a *StateError", err, err, tc.want)
			}
			if !reflect.DeepEqual(a.StateDict(), before) {
				t.Error("the optimizer changed")
			}
		})
	}
}

func TestInitialLR(t *testing.T) {
	a := smallAdam(t, 0.5)
	if _, ok := a.InitialLR(0); ok {
		t.Error("there is an initial learning rate without a scheduler")
	}
	a.SetInitialLR(0, 0.125)
	a.SetInitialLR(0, 0.25)
	if lr, ok := a.InitialLR(0); !ok || lr != 0.25 {
		t.Errorf("initial learning rate is %v, %v; want the last that was set, 0.25", lr, ok)
	}
}
