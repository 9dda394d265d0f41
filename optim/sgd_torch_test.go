package optim

import (
	"fmt"
	"slices"
	"testing"

	"rejoin/pyobj"
)

type sgdCase struct {
	Fused, Foreach, Nesterov, Maximize bool
	Momentum, Dampening                float64
	WeightDecay                        float64 `json:"weight_decay"`
	Shapes                             [][]int
	Values                             []floats
	Keys                               [][]string
	Steps                              []struct {
		LR            float64
		Grads, Values []floats
		Momentum      []floats `json:"momentum_buffer"`
	}
}

func (tc *sgdCase) build(t *testing.T) (*SGD, []*Param) {
	t.Helper()
	o := Options{LR: 1e-2, WeightDecay: tc.WeightDecay, Momentum: tc.Momentum, Dampening: tc.Dampening, Nesterov: tc.Nesterov, Maximize: tc.Maximize}
	switch {
	case tc.Fused:
		o.Implementation = Fused
	case tc.Foreach:
		o.Implementation = Foreach
	}
	groups := []Group{{Options: o}, {Options: o}}
	var params []*Param
	for i, shape := range tc.Shapes {
		n := len(tc.Values[i])
		p := &Param{Name: fmt.Sprintf("p%d", i), Shape: shape, Values: slices.Clone(tc.Values[i]), Grad: make([]float32, n)}
		params = append(params, p)
		groups[i%2].Params = append(groups[i%2].Params, p)
	}
	s, err := NewSGD(groups)
	if err != nil {
		t.Fatal(err)
	}
	return s, params
}

// Every size from 1 to 37 elements with its tail; single, foreach and fused,
// each option, in bits.
func TestSGDEqualsTorch(t *testing.T) {
	for i, tc := range readCases[sgdCase](t, "sgd.json") {
		s, params := tc.build(t)
		t.Run(fmt.Sprintf("%d/%v/momentum=%v", i, s.Options(0).Implementation, tc.Momentum), func(t *testing.T) {
			for n, step := range tc.Steps {
				for i, p := range params {
					copy(p.Grad, step.Grads[i])
				}
				for i := range s.NumGroups() {
					s.SetLearningRate(i, step.LR)
				}
				s.Step()
				for i, p := range params {
					what := fmt.Sprintf("step %d, %v elements, ", n+1, len(p.Values))
					if tc.Momentum != 0 {
						sameBits(t, what+"momentum_buffer", s.Momentum(p.Name), step.Momentum[i])
					} else if s.Momentum(p.Name) != nil {
						t.Error("there is a momentum buffer without momentum")
					}
					sameBits(t, what+"values", p.Values, step.Values[i])
					sameBits(t, what+"gradient, which is only read,", p.Grad, step.Grads[i])
				}
			}
			groups, _ := s.StateDict().Get("param_groups")
			for i, g := range groups.(*pyobj.List).Items {
				var keys []string
				for _, e := range g.(*pyobj.Dict).Entries() {
					keys = append(keys, e.Key.(string))
				}
				if !slices.Equal(keys, tc.Keys[i]) {
					t.Errorf("group %d has keys\n%v, want\n%v", i, keys, tc.Keys[i])
				}
			}
		})
	}
}
