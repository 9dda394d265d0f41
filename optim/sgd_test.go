package optim

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// smallNet are the parameters of the model in scripts/torch_optim_files.py.
func smallNet() []*Param {
	return []*Param{testParam("0.weight", 7, 9), testParam("0.bias", 7), testParam("2.weight", 2, 7), testParam("2.bias", 2)}
}

func newSGD(t *testing.T, o Options, params []*Param) *SGD {
	t.Helper()
	s, err := NewSGD([]Group{{Options: o, Params: params}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewSGDRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Group)
		want   string
	}{
		{"lr", func(g *Group) { g.LR = -1 }, "lr is -1"},
		{"momentum", func(g *Group) { g.Momentum = -0.1 }, "momentum is -0.1"},
		{"dampening", func(g *Group) { g.Dampening = math.NaN() }, "dampening is NaN"},
		{"nesterov without momentum", func(g *Group) { g.Nesterov = true }, "nesterov with momentum 0 and dampening 0"},
		{"nesterov with dampening", func(g *Group) { g.Nesterov, g.Momentum, g.Dampening = true, 0.9, 0.1 }, "expected momentum above 0 and dampening 0"},
		{"weight decay", func(g *Group) { g.WeightDecay = -1 }, "weight_decay is -1"},
		{"own key", func(g *Group) { g.OwnKeys = []string{"betas"} }, `own key "betas" is unknown`},
		{"none", func(g *Group) { g.Params = nil }, "optimizer got no parameters"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := Group{Options: Options{LR: 0.1}, Params: []*Param{testParam("w", 2)}}
			tc.change(&g)
			if _, err := NewSGD([]Group{g}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q in it", err, tc.want)
			}
		})
	}
}

// What torch wrote is loaded, and written as it was.
func TestSGDFilesReadBack(t *testing.T) {
	for name, momentum := range map[string]bool{"sgd_momentum.pt": true, "sgd_plain.pt": false} {
		d := readObject(t, "testdata", name)
		params := smallNet()
		s := newSGD(t, Options{LR: 123}, params)
		if err := s.LoadStateDict(d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if o := s.Options(0); o.LR != 0.01 || (o.Momentum != 0) != momentum || s.Notices() != nil {
			t.Errorf("%s: options are %+v, notices %v", name, o, s.Notices())
		}
		if got := diff(d, s.StateDict(), name); got != "" {
			t.Error(got)
		}
		if (s.Momentum("2.bias") != nil) != momentum || s.Momentum("unknown") != nil {
			t.Errorf("%s: momentum is %v", name, s.Momentum("2.bias"))
		}
	}
}

func TestSGDResumeEqualsUninterrupted(t *testing.T) {
	for _, implementation := range []Implementation{SingleTensor, Fused, Foreach} {
		for _, o := range []Options{
			{LR: 0.1}, {LR: 0.1, Momentum: 0.9}, {LR: 0.1, Momentum: 0.9, Nesterov: true, WeightDecay: 0.1}, {LR: 0.1, Momentum: 0.5, Dampening: 0.5, Maximize: true},
		} {
			o.Implementation = implementation
			straight, resumedParams := smallNet(), smallNet()
			a := newSGD(t, o, straight)
			step := func(params []*Param, s *SGD, from, to int) {
				for n := from; n < to; n++ {
					setGrads(params, n)
					s.Step()
				}
			}
			step(straight, a, 0, 3)
			for i, p := range straight {
				copy(resumedParams[i].Values, p.Values)
			}
			b := newSGD(t, Options{LR: 7}, resumedParams)
			if err := b.LoadStateDict(a.StateDict()); err != nil {
				t.Fatal(err)
			}
			step(straight, a, 3, 6)
			step(resumedParams, b, 3, 6)
			for i, p := range straight {
				sameBits(t, p.Name, resumedParams[i].Values, p.Values)
			}
			if !reflect.DeepEqual(a.StateDict(), b.StateDict()) {
				t.Error("the states differ at the end")
			}
		}
	}
}

// torch before 2.0 writes the None of a buffer that there is not yet.
func TestSGDMomentumOfNone(t *testing.T) {
	none := pyobj.NewDict("momentum_buffer", nil)
	old := pyobj.NewDict("lr", 0.1, "momentum", 0.9, "dampening", int64(0), "weight_decay", int64(0), "nesterov", false,
		"params", &pyobj.List{Items: []any{int64(0), int64(1)}})
	d := pyobj.NewDict("state", pyobj.NewDict(int64(0), none, int64(1), pyobj.NewDict("momentum_buffer", tensor.FromFloat32([]float32{5}, 1))),
		"param_groups", &pyobj.List{Items: []any{old}})
	params := []*Param{testParam("a", 2), testParam("b", 1)}
	s := newSGD(t, Options{LR: 1}, params)
	if err := s.LoadStateDict(d); err != nil {
		t.Fatal(err)
	}
	if got := at(t, s.StateDict(), "state", 0, "momentum_buffer"); got != nil {
		t.Errorf("the None is written as %v", got)
	}
	setGrads(params, 1)
	s.Step()
	sameBits(t, "the first buffer", s.Momentum("a"), params[0].Grad) // the gradient, not 0.9·0 + it
	if got := at(t, s.StateDict(), "param_groups", 0, "fused"); got != false {
		t.Errorf("fused, which the file lacks, is %v; SGD.__setstate__ makes it false", got)
	}
}

func TestSGDLoadRefuses(t *testing.T) {
	two := tensor.FromFloat32([]float32{1, 2}, 2)
	for _, tc := range []struct {
		name   string
		change func(group, state *pyobj.Dict)
		want   string
	}{
		{"Adam's group", func(g, _ *pyobj.Dict) {
			*g = *pyobj.NewDict("lr", 1.0, "betas", nil, "params", &pyobj.List{Items: []any{int64(0)}})
		}, "param_groups[0]: this is the state of Adam, expected SGD's"},
		{"no momentum", func(g, _ *pyobj.Dict) { *g = *pyobj.NewDict("lr", 1.0, "params", &pyobj.List{Items: []any{int64(0)}}) }, `param_groups[0]["momentum"]: is missing`},
		{"nesterov", func(g, _ *pyobj.Dict) { g.Set("nesterov", true); g.Set("dampening", 0.5) }, "param_groups[0]: nesterov with momentum"},
		{"fused and foreach", func(g, _ *pyobj.Dict) { g.Set("fused", true); g.Set("foreach", true) }, "cannot both be true"},
		{"Adam's state", func(_, s *pyobj.Dict) { *s = *pyobj.NewDict("exp_avg", two) }, `state[0]["momentum_buffer"]: is missing; the state has "exp_avg", which is not SGD's`},
		{"text", func(_, s *pyobj.Dict) { s.Set("momentum_buffer", "x") }, `state[0]["momentum_buffer"]: expected a tensor, found str`},
		{"out of its storage", func(_, s *pyobj.Dict) {
			s.Set("momentum_buffer", &tensor.Tensor{DType: tensor.Float32, Shape: []int{2}, Stride: []int{1 << 40}, Storage: two.Storage})
		}, `state[0]["momentum_buffer"]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			params := []*Param{testParam("w", 2)}
			s := newSGD(t, Options{LR: 1, Momentum: 0.9}, params)
			setGrads(params, 1)
			s.Step()
			before, d := s.StateDict(), s.StateDict()
			tc.change(at(t, d, "param_groups", 0).(*pyobj.Dict), at(t, d, "state", 0).(*pyobj.Dict))
			err := s.LoadStateDict(d)
			if _, ok := errors.AsType[*StateError](err); !ok || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v (%T), want %q in a *StateError", err, err, tc.want)
			}
			if !reflect.DeepEqual(s.StateDict(), before) {
				t.Error("the optimizer changed")
			}
		})
	}
}

func TestSGDSkipsParametersWithoutGradient(t *testing.T) {
	frozen, empty := testParam("frozen", 3), testParam("empty", 0, 4)
	frozen.Grad = nil
	s := newSGD(t, Options{LR: 1, Momentum: 0.5}, []*Param{frozen, empty})
	s.Step()
	if s.Momentum("frozen") != nil || s.Momentum("empty") == nil {
		t.Error("a parameter without gradient has a buffer, or one without elements has none")
	}
	if n := testing.AllocsPerRun(10, s.Step); n != 0 {
		t.Errorf("a step makes %v allocations", n)
	}
}

func BenchmarkSGDStep(b *testing.B) {
	const n = 1 << 18
	p := testParam("w", n)
	setGrads([]*Param{p}, 1)
	s, err := NewSGD([]Group{{Options: Options{LR: 1e-3, Momentum: 0.9}, Params: []*Param{p}}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s.Step()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/param")
}
