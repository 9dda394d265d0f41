package optim

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func testParam(name string, shape ...int) *Param {
	n := 1
	for _, d := range shape {
		n *= d
	}
	p := &Param{Name: name, Shape: shape, Values: make([]float32, n), Grad: make([]float32, n)}
	for i := range p.Values {
		p.Values[i] = float32(math.Sin(float64(i + len(name))))
	}
	return p
}

// setGrads fills the gradients from step, so that two runs can see the same.
func setGrads(params []*Param, step int) {
	for k, p := range params {
		for i := range p.Grad {
			p.Grad[i] = float32(math.Cos(float64(7*step + 3*i + k)))
		}
	}
}

func TestNewAdamRefuses(t *testing.T) {
	good := func() Group { return Group{Options: DefaultOptions(), Params: []*Param{testParam("w", 2)}} }
	shared := testParam("w", 2)
	for _, tc := range []struct {
		name   string
		change func(*Group)
		want   string
	}{
		{"lr", func(g *Group) { g.LR = -1 }, "lr is -1"},
		{"lr NaN", func(g *Group) { g.LR = math.NaN() }, "lr is NaN"},
		{"lr infinite", func(g *Group) { g.LR = math.Inf(1) }, "lr is +Inf"},
		{"beta1", func(g *Group) { g.Beta1 = 1 }, "beta1 is 1, expected a number in [0, 1)"},
		{"beta2", func(g *Group) { g.Beta2 = -0.1 }, "beta2 is -0.1"},
		{"eps", func(g *Group) { g.Eps = -1 }, "eps is -1"},
		{"weight decay", func(g *Group) { g.WeightDecay = -1 }, "weight_decay is -1"},
		{"implementation", func(g *Group) { g.Implementation = 9 }, "Implementation(9) is not one of single, fused, foreach"},
		{"own key", func(g *Group) { g.OwnKeys = []string{"momentum"} }, `own key "momentum" is unknown`},
		{"own key twice", func(g *Group) { g.OwnKeys = []string{"lr", "lr"} }, `own key "lr" is unknown or named twice`},
		{"values", func(g *Group) { g.Params[0].Values = nil }, `parameter "w" of shape [2] has 0 values, expected 2`},
		{"gradients", func(g *Group) { g.Params[0].Grad = make([]float32, 3) }, `parameter "w" has 2 values and 3 gradients`},
		{"twice", func(g *Group) { g.Params = []*Param{shared, shared} }, `parameter "w" is in the optimizer twice`},
		{"none", func(g *Group) { g.Params = nil }, "optimizer got no parameters"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := good()
			tc.change(&g)
			_, err := NewAdam([]Group{g})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestImplementationNames(t *testing.T) {
	for i, want := range map[Implementation]string{SingleTensor: "single", Fused: "fused", Foreach: "foreach", 7: "Implementation(7)"} {
		if i.String() != want {
			t.Errorf("%d is called %q, want %q", i, i.String(), want)
		}
	}
}

func TestStepSkipsParametersWithoutGradient(t *testing.T) {
	frozen, trained := testParam("frozen", 3), testParam("trained", 3)
	before := slices.Clone(frozen.Values)
	frozen.Grad = nil
	a, err := NewAdamW([]Group{{Options: DefaultOptions(), Params: []*Param{frozen, trained}}})
	if err != nil {
		t.Fatal(err)
	}
	setGrads([]*Param{trained}, 1)
	a.Step()
	sameBits(t, "frozen", frozen.Values, before)
	if got := a.StepCount("frozen"); got != 0 {
		t.Errorf("the frozen parameter made %d steps", got)
	}
	if got := a.StepCount("trained"); got != 1 {
		t.Errorf("the trained parameter made %d steps", got)
	}
	if got := a.StepCount("unknown"); got != 0 {
		t.Errorf("an unknown parameter made %d steps", got)
	}
}

func TestStepOnEmptyParameter(t *testing.T) {
	for _, implementation := range []Implementation{SingleTensor, Fused, Foreach} {
		for _, amsgrad := range []bool{false, true} {
			o := DefaultOptions()
			o.Implementation, o.AMSGrad = implementation, amsgrad
			a, err := NewAdamW([]Group{{Options: o, Params: []*Param{testParam("empty", 0, 4), testParam("w", 1)}}})
			if err != nil {
				t.Fatal(err)
			}
			a.Step()
			if got := a.StepCount("empty"); got != 1 {
				t.Errorf("an empty parameter made %d steps, want 1", got)
			}
		}
	}
}

// The step count is a float32 in torch, and stops where float32 stops counting.
func TestStepCountSaturatesAsTorchs(t *testing.T) {
	a := smallAdam(t, 1e-3)
	a.Step()
	p := a.groups[0].parameters[0]
	p.step = 1<<24 - 1
	a.Step()
	a.Step()
	if p.step != 1<<24 {
		t.Errorf("step is %v, want %v", p.step, 1<<24)
	}
}

func TestStepDoesNotAllocateAfterTheFirst(t *testing.T) {
	for _, amsgrad := range []bool{false, true} {
		o := DefaultOptions()
		o.AMSGrad = amsgrad
		a, err := NewAdamW([]Group{{Options: o, Params: []*Param{testParam("w", 37)}}})
		if err != nil {
			t.Fatal(err)
		}
		a.Step()
		if n := testing.AllocsPerRun(10, a.Step); n != 0 {
			t.Errorf("amsgrad %v: a step makes %v allocations", amsgrad, n)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for _, implementation := range []Implementation{Fused, SingleTensor} {
		b.Run(implementation.String(), func(b *testing.B) {
			const n = 1 << 18
			o := DefaultOptions()
			o.Implementation = implementation
			p := testParam("w", n)
			setGrads([]*Param{p}, 1)
			a, err := NewAdamW([]Group{{Options: o, Params: []*Param{p}}})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				a.Step()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/param")
		})
	}
}
