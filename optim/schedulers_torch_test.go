package optim

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"rejoin/pyobj"
)

type schedulerCase struct {
	Name    string
	Kwargs  map[string]any
	Rates   [][]float64
	Metrics []float64
	States  []json.RawMessage // after 0, 5 and 44 steps
}

var schedulerStates = []int{0, 5, 44}

// anyScheduler is a Scheduler or a Plateau.
type anyScheduler interface {
	LastLR() []float64
	LastEpoch() int
	StateDict() *pyobj.Dict
	LoadStateDict(*pyobj.Dict) error
}

func (tc *schedulerCase) number(key string, fallback float64) float64 {
	if v, ok := tc.Kwargs[key].(float64); ok {
		return v
	}
	return fallback
}

// build makes an optimizer of two groups and the scheduler of the case.
func (tc *schedulerCase) build(t *testing.T, rates ...float64) (*SGD, anyScheduler, func(step int)) {
	t.Helper()
	var groups []Group
	for i, lr := range rates {
		groups = append(groups, Group{Options: Options{LR: lr}, Params: []*Param{testParam(fmt.Sprint(i), 1)}})
	}
	opt, err := NewSGD(groups)
	if err != nil {
		t.Fatal(err)
	}
	if tc.Name == "ReduceLROnPlateau" {
		p, err := NewPlateau(opt, tc.plateau())
		if err != nil {
			t.Fatal(err)
		}
		if list, ok := tc.Kwargs["min_lr"].([]any); ok {
			p.defaultMinLR = nil
			for i, v := range list {
				p.minLRs[i] = v.(float64)
			}
		}
		return opt, p, func(step int) { p.Step(tc.Metrics[step]) }
	}
	var s *Scheduler
	switch tc.Name {
	case "StepLR":
		s, err = NewStepLR(opt, int(tc.number("step_size", 0)), tc.number("gamma", 0.1))
	case "MultiStepLR":
		var milestones []int
		for _, m := range tc.Kwargs["milestones"].([]any) {
			milestones = append(milestones, int(m.(float64)))
		}
		s, err = NewMultiStepLR(opt, milestones, tc.number("gamma", 0.1))
	case "CosineAnnealingLR":
		s, err = NewCosineAnnealingLR(opt, int(tc.number("T_max", 0)), tc.number("eta_min", 0))
	default:
		t.Fatalf("there is no %s here", tc.Name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return opt, s, func(int) { s.Step() }
}

func (tc *schedulerCase) plateau() PlateauOptions {
	o := DefaultPlateauOptions()
	if mode, ok := tc.Kwargs["mode"].(string); ok {
		o.Mode = mode
	}
	if mode, ok := tc.Kwargs["threshold_mode"].(string); ok {
		o.ThresholdMode = mode
	}
	o.Factor, o.Threshold = tc.number("factor", o.Factor), tc.number("threshold", o.Threshold)
	o.Patience, o.Cooldown = int(tc.number("patience", 10)), int(tc.number("cooldown", 0))
	o.MinLR, o.Eps = tc.number("min_lr", 0), tc.number("eps", o.Eps)
	return o
}

// pythonValue reads what scripts/torch_optim.py's plain wrote.
func pythonValue(t *testing.T, raw []byte) any {
	t.Helper()
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		l := &pyobj.List{}
		for _, item := range list {
			l.Items = append(l.Items, pythonValue(t, item))
		}
		return l
	}
	var v struct {
		Type, Text string
		Items      [][2]json.RawMessage
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	switch v.Type {
	case "dict", "Counter":
		d := &pyobj.Dict{}
		if v.Type == "Counter" {
			d.Kind = pyobj.Counter
		}
		for _, item := range v.Items {
			d.Set(pythonValue(t, item[0]), pythonValue(t, item[1]))
		}
		return d
	case "int":
		n, err := strconv.ParseInt(v.Text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	case "float":
		if v.Text == "inf" || v.Text == "-inf" {
			return math.Inf(map[string]int{"inf": 1, "-inf": -1}[v.Text])
		}
		f, err := strconv.ParseFloat(v.Text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	case "bool":
		return v.Text == "True"
	case "str":
		return v.Text
	case "NoneType":
		return nil
	}
	t.Fatalf("type %s", v.Type)
	return nil
}

// same allows a few units in the last place where the C library's cosine has its
// part: CosineAnnealingLR computes rate from rate, so that one difference stays.
func (tc *schedulerCase) same(got, want float64) bool {
	if tc.Name == "CosineAnnealingLR" {
		return math.Abs(got-want) <= 2e-15*0.1
	}
	return got == want
}

func TestSchedulersEqualTorch(t *testing.T) {
	for i, tc := range readCases[schedulerCase](t, "schedulers.json") {
		t.Run(fmt.Sprintf("%d/%s", i, tc.Name), func(t *testing.T) {
			opt, s, step := tc.build(t, 0.1, 0.007)
			exact := true
			for n, want := range tc.Rates {
				for g := range want {
					got := opt.LearningRate(g)
					if !tc.same(got, want[g]) || s.LastLR()[g] != got {
						t.Fatalf("step %d, group %d: rate %v (%v last), want %v", n, g, got, s.LastLR()[g], want[g])
					}
					exact = exact && got == want[g]
				}
				if at := slices.Index(schedulerStates, n); at >= 0 && exact {
					if d := diff(pythonValue(t, tc.States[at]), s.StateDict(), "state"); d != "" {
						t.Errorf("after %d steps: %s", n, d)
					}
				}
				if n+1 < len(tc.Rates) {
					step(n)
				}
			}
			if !exact {
				t.Log("a cosine of the C library was rounded otherwise")
			}
		})
	}
}

// From torch's state after 5 steps, loaded into a scheduler of other
// arguments, the rest of the run is the uninterrupted one's.
func TestSchedulersGoOnFromTorchsState(t *testing.T) {
	for i, tc := range readCases[schedulerCase](t, "schedulers.json") {
		t.Run(fmt.Sprintf("%d/%s", i, tc.Name), func(t *testing.T) {
			other := tc
			other.Kwargs = map[string]any{"step_size": 77.0, "milestones": []any{77.0}, "T_max": 77.0, "gamma": 0.77}
			opt, s, step := other.build(t, 0.5, 0.5)
			if err := s.LoadStateDict(pythonValue(t, tc.States[1]).(*pyobj.Dict)); err != nil {
				t.Fatal(err)
			}
			for g, lr := range tc.Rates[5] { // they are in the optimizer's file
				opt.SetLearningRate(g, lr)
			}
			if d := diff(pythonValue(t, tc.States[1]), s.StateDict(), "state"); d != "" {
				t.Errorf("read back: %s", d)
			}
			for n := 5; n < 44; n++ {
				step(n)
				for g, want := range tc.Rates[n+1] {
					if got := opt.LearningRate(g); !tc.same(got, want) {
						t.Fatalf("step %d, group %d: rate %v, want %v", n+1, g, got, want)
					}
				}
			}
			if s.LastEpoch() != 44 {
				t.Errorf("it is at %d, want 44", s.LastEpoch())
			}
		})
	}
}
