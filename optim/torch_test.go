package optim

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"rejoin/pyobj"
)

// floats is a float32 array that testdata holds as base64.
type floats []float32

func (f *floats) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	*f = make(floats, len(data)/4)
	_, err = binary.Decode(data, binary.LittleEndian, *f)
	return err
}

// readCases reads the cases of a file that scripts/torch_optim.py wrote.
func readCases[T any](t *testing.T, name string) []T {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []T }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatalf("%s holds no cases", name)
	}
	return file.Cases
}

// sameBits reports the first element whose bits differ; NaNs are all alike.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		if got[i] != got[i] && want[i] != want[i] {
			continue
		}
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d of %d is %v (%08x), want %v (%08x)", what, i, len(want),
				got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

type adamCase struct {
	AdamW       bool
	Fused       bool
	Foreach     bool
	AMSGrad     bool
	Maximize    bool
	WeightDecay float64 `json:"weight_decay"`
	Eps         float64
	Betas       []float64
	Shapes      [][]int
	Values      []floats
	Keys        [][]string
	Steps       []struct {
		LR            float64
		Grads, Values []floats
		ExpAvg        []floats `json:"exp_avg"`
		ExpAvgSq      []floats `json:"exp_avg_sq"`
		MaxExpAvgSq   []floats `json:"max_exp_avg_sq"`
	}
}

func (tc *adamCase) options() Options {
	o := DefaultOptions()
	o.LR, o.WeightDecay, o.AMSGrad, o.Maximize = 1e-2, tc.WeightDecay, tc.AMSGrad, tc.Maximize
	if tc.Betas != nil {
		o.Beta1, o.Beta2 = tc.Betas[0], tc.Betas[1]
	}
	if tc.Eps != 0 {
		o.Eps = tc.Eps
	}
	switch {
	case tc.Fused:
		o.Implementation = Fused
	case tc.Foreach:
		o.Implementation = Foreach
	}
	return o
}

// build makes the optimizer of the case; its even parameters decay, its odd do not.
func (tc *adamCase) build(t *testing.T) (*Adam, []*Param) {
	t.Helper()
	own := []string{"weight_decay"}
	groups := []Group{{Options: tc.options(), OwnKeys: own}, {Options: tc.options(), OwnKeys: own}}
	groups[1].WeightDecay = 0
	var params []*Param
	for i, shape := range tc.Shapes {
		n := len(tc.Values[i])
		p := &Param{Name: fmt.Sprintf("p%d", i), Shape: shape, Values: slices.Clone(tc.Values[i]), Grad: make([]float32, n)}
		params = append(params, p)
		groups[i%2].Params = append(groups[i%2].Params, p)
	}
	create := NewAdam
	if tc.AdamW {
		create = NewAdamW
	}
	a, err := create(groups)
	if err != nil {
		t.Fatal(err)
	}
	return a, params
}

// stateOf finds a parameter's state.
func stateOf(t *testing.T, a *Adam, p *Param) *state {
	t.Helper()
	for _, g := range a.groups {
		for _, own := range g.parameters {
			if own.Param == p {
				return &own.state
			}
		}
	}
	t.Fatalf("parameter %q is not in the optimizer", p.Name)
	return nil
}

// Every size from 1 to 37 elements is here with its tail; single, foreach and
// fused, AMSGrad and maximize, in bits.
func TestAdamEqualsTorch(t *testing.T) {
	for i, tc := range readCases[adamCase](t, "adam.json") {
		t.Run(fmt.Sprintf("%d/adamw=%v/%v", i, tc.AdamW, tc.options().Implementation), func(t *testing.T) {
			a, params := tc.build(t)
			for s, step := range tc.Steps {
				for i, p := range params {
					copy(p.Grad, step.Grads[i])
				}
				for i := range a.NumGroups() {
					a.SetLearningRate(i, step.LR)
				}
				a.Step()
				for i, p := range params {
					what := fmt.Sprintf("step %d, %v elements, ", s+1, len(p.Values))
					state := stateOf(t, a, p)
					sameBits(t, what+"exp_avg", state.expAvg, step.ExpAvg[i])
					sameBits(t, what+"exp_avg_sq", state.expAvgSq, step.ExpAvgSq[i])
					if tc.AMSGrad {
						sameBits(t, what+"max_exp_avg_sq", state.maxExpAvgSq, step.MaxExpAvgSq[i])
					}
					sameBits(t, what+"values", p.Values, step.Values[i])
					sameBits(t, what+"gradient, which is only read,", p.Grad, step.Grads[i])
				}
			}
			if got := a.StepCount("p0"); got != len(tc.Steps) {
				t.Errorf("StepCount = %d, want %d", got, len(tc.Steps))
			}
		})
	}
}

// The state dict's keys stand in torch's order.
func TestStateDictKeysEqualTorch(t *testing.T) {
	for _, tc := range readCases[adamCase](t, "adam.json") {
		a, _ := tc.build(t)
		groups, _ := a.StateDict().Get("param_groups")
		for i, g := range groups.(*pyobj.List).Items {
			var keys []string
			for _, e := range g.(*pyobj.Dict).Entries() {
				keys = append(keys, e.Key.(string))
			}
			if !slices.Equal(keys, tc.Keys[i]) {
				t.Errorf("group %d has keys\n%v, want\n%v", i, keys, tc.Keys[i])
			}
		}
	}
}

type clipCase struct {
	MaxNorm float64 `json:"max_norm"`
	Grads   []floats
	Norm    floats
	Clipped []floats
}

func TestClipGradNormEqualsTorch(t *testing.T) {
	for i, tc := range readCases[clipCase](t, "clip.json") {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			params := []*Param{{Name: "frozen", Shape: []int{1}, Values: []float32{1}}}
			for _, g := range tc.Grads {
				params = append(params, &Param{Shape: []int{len(g)}, Values: make([]float32, len(g)), Grad: slices.Clone(g)})
			}
			sameBits(t, "GradNorm", []float32{GradNorm(params)}, tc.Norm)
			sameBits(t, "norm", []float32{ClipGradNorm(params, tc.MaxNorm)}, tc.Norm)
			for j, want := range tc.Clipped {
				sameBits(t, fmt.Sprintf("gradient %d", j), params[j+1].Grad, want)
			}
		})
	}
}

type scheduleCase struct {
	Name          string
	Warmup, Total int
	Kwargs        map[string]any
	LR            float64
	Rates         []float64
	// Misrounded are the steps whose cosine torch's C library did not round correctly.
	Misrounded []int
}

func TestSchedulesEqualTorch(t *testing.T) {
	for _, tc := range readCases[scheduleCase](t, "schedules.json") {
		t.Run(fmt.Sprintf("%s/%d/%d", tc.Name, tc.Warmup, tc.Total), func(t *testing.T) {
			schedule, err := NewSchedule(tc.Name, tc.Warmup, tc.Total, tc.Kwargs)
			if err != nil {
				t.Fatal(err)
			}
			a := smallAdam(t, tc.LR)
			s, err := NewScheduler(a, schedule)
			if err != nil {
				t.Fatal(err)
			}
			for step, want := range tc.Rates {
				got := a.LearningRate(0)
				tolerance := 0.0
				if slices.Contains(tc.Misrounded, step) {
					tolerance = 4e-16 * want
				}
				if math.Abs(got-want) > tolerance || s.LastLR()[0] != got {
					t.Errorf("learning rate at step %d is %v (%v last), want %v", step, got, s.LastLR()[0], want)
				}
				s.Step()
			}
		})
	}
}

// smallAdam is an AdamW of one parameter and one group.
func smallAdam(t *testing.T, lr float64) *Adam {
	t.Helper()
	o := DefaultOptions()
	o.LR = lr
	p := &Param{Name: "w", Shape: []int{2}, Values: []float32{1, 2}, Grad: []float32{0.5, -0.5}}
	a, err := NewAdamW([]Group{{Options: o, Params: []*Param{p}}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}
