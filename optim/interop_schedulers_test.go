package optim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"rejoin/pyobj"
)

// schedulersInTorch goes on from our states in torch, and writes torch's own
// states after as many steps. Each case: {"class", "kwargs", "other", "metrics",
// "first", "steps", "dir"}; in dir are our optimizer-K.pt and scheduler-K.pt.
const schedulersInTorch = `
import json, os, sys, torch
from torch.optim import lr_scheduler

def make(case, lr, kwargs):
    p, q = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(2))
    opt = torch.optim.SGD([{"params": [p]}, {"params": [q], "lr": lr / 3}], lr=lr)
    return opt, getattr(lr_scheduler, case["class"])(opt, **kwargs)

def rates(case, opt, sched, first):
    out = []
    for n in range(first, case["steps"]):
        out.append([g["lr"] for g in opt.param_groups])
        opt.step()
        sched.step(case["metrics"][n]) if case["class"] == "ReduceLROnPlateau" else sched.step()
    return out

result = []
for case in json.load(open(sys.argv[1])):
    ours = []
    for k in range(case["steps"]):
        opt, sched = make(case, 7.0, case["other"])
        opt.load_state_dict(torch.load(os.path.join(case["dir"], "optimizer-%d.pt" % k)))
        sched.load_state_dict(torch.load(os.path.join(case["dir"], "scheduler-%d.pt" % k)))
        ours.append(rates(case, opt, sched, k))
        opt, sched = make(case, 0.1, case["kwargs"])
        whole = rates(dict(case, steps=k), opt, sched, 0)
        torch.save(opt.state_dict(), os.path.join(case["dir"], "torch-optimizer-%d.pt" % k))
        torch.save(sched.state_dict(), os.path.join(case["dir"], "torch-scheduler-%d.pt" % k))
    opt, sched = make(case, 0.1, case["kwargs"])
    result.append({"ours": ours, "whole": rates(case, opt, sched, 0)})
json.dump({"torch": torch.__version__, "cases": result}, sys.stdout)
`

type interopSchedule struct {
	Class   string         `json:"class"`
	Kwargs  map[string]any `json:"kwargs"`
	Other   map[string]any `json:"other"` // constants that the state has to replace
	Metrics []float64      `json:"metrics"`
	Steps   int            `json:"steps"`
	Dir     string         `json:"dir"`
}

// make attaches the case's scheduler to an optimizer of two groups.
func (c *interopSchedule) make(t *testing.T, lr float64, kwargs map[string]any) (*SGD, anyScheduler, func(n int)) {
	t.Helper()
	opt, err := NewSGD([]Group{
		{Options: Options{LR: lr}, Params: []*Param{testParam("p", 1)}}, {Options: Options{LR: lr / 3}, Params: []*Param{testParam("q", 2)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Class == ReduceLROnPlateau {
		o, err := PlateauArguments(kwargs)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPlateau(opt, o)
		if err != nil {
			t.Fatal(err)
		}
		return opt, p, func(n int) { p.Step(c.Metrics[n]) }
	}
	attach, err := TorchSchedule(c.Class, kwargs)
	if err != nil {
		t.Fatal(err)
	}
	s := attach(opt)
	return opt, s, func(int) { s.Step() }
}

func (c *interopSchedule) rates(opt *SGD, step func(int), first, end int) (rates [][]float64) {
	for n := first; n < end; n++ {
		rates = append(rates, []float64{opt.LearningRate(0), opt.LearningRate(1)})
		step(n)
	}
	return rates
}

func equalRates(a, b [][]float64) bool {
	return slices.EqualFunc(a, b, func(x, y []float64) bool { return slices.Equal(x, y) })
}

// After every number of steps: our state, loaded into torch's class of other
// constants, and torch's, loaded into ours, go on to the same learning rates, bit
// for bit.
func TestInteropTorchSchedulers(t *testing.T) {
	interpreter := python(t)
	metrics := []float64{3, 2, 2.1, 2.2, 1.99, 1.5, 1.6, 1.7, 1.8, 1.9, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1}
	cases := []*interopSchedule{
		{Class: StepLR, Kwargs: map[string]any{"step_size": 5.0, "gamma": 0.3}, Other: map[string]any{"step_size": 2.0}},
		{Class: MultiStepLR, Kwargs: map[string]any{"milestones": []any{4.0, 9.0, 9.0, 15.0}}, Other: map[string]any{"milestones": []any{1.0}, "gamma": 0.7}},
		{Class: CosineAnnealingLR, Kwargs: map[string]any{"T_max": 7.0, "eta_min": 1e-4}, Other: map[string]any{"T_max": 3.0}},
		{Class: CosineAnnealingLR, Kwargs: map[string]any{"T_max": 100.0}, Other: map[string]any{"T_max": 3.0}},
		{Class: ReduceLROnPlateau, Kwargs: map[string]any{"factor": 0.5, "patience": 1.0, "cooldown": 2.0}, Other: map[string]any{"mode": "max", "patience": 9.0}},
		{Class: ReduceLROnPlateau, Kwargs: map[string]any{"mode": "max", "threshold_mode": "abs", "min_lr": []any{0.01, 0.02}, "patience": 0.0}, Other: map[string]any{}},
	}
	dir := t.TempDir()
	for i, c := range cases {
		c.Metrics, c.Steps, c.Dir = metrics, len(metrics), filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(c.Dir, 0o777); err != nil {
			t.Fatal(err)
		}
		for k := range c.Steps {
			opt, s, step := c.make(t, 0.1, c.Kwargs)
			c.rates(opt, step, 0, k)
			writeObject(t, filepath.Join(c.Dir, fmt.Sprintf("optimizer-%d.pt", k)), opt.StateDict())
			writeObject(t, filepath.Join(c.Dir, fmt.Sprintf("scheduler-%d.pt", k)), s.StateDict())
		}
	}
	got := runSchedulersInTorch(t, interpreter, dir, cases)
	for i, c := range cases {
		opt, _, step := c.make(t, 0.1, c.Kwargs)
		want := c.rates(opt, step, 0, c.Steps)
		if !equalRates(got[i].Whole, want) {
			t.Errorf("%s %v: torch's rates are\n%v, ours\n%v", c.Class, c.Kwargs, got[i].Whole, want)
		}
		for k := range c.Steps {
			if !equalRates(got[i].Ours[k], want[k:]) {
				t.Errorf("%s: from our state after %d steps torch's rates are\n%v, want\n%v", c.Class, k, got[i].Ours[k], want[k:])
			}
			opt, s, step := c.make(t, 7, c.Other)
			load(t, opt, readObject(t, c.Dir, fmt.Sprintf("torch-optimizer-%d.pt", k)))
			load(t, s, readObject(t, c.Dir, fmt.Sprintf("torch-scheduler-%d.pt", k)))
			if rates := c.rates(opt, step, k, c.Steps); !equalRates(rates, want[k:]) {
				t.Errorf("%s: from torch's state after %d steps our rates are\n%v, want\n%v", c.Class, k, rates, want[k:])
			}
		}
	}
}

func load(t *testing.T, s interface{ LoadStateDict(*pyobj.Dict) error }, d *pyobj.Dict) {
	t.Helper()
	if err := s.LoadStateDict(d); err != nil {
		t.Fatal(err)
	}
}

type torchRates struct {
	Ours  [][][]float64 // by the steps made before: the rates of the rest
	Whole [][]float64
}

func runSchedulersInTorch(t *testing.T, interpreter, dir string, cases []*interopSchedule) []torchRates {
	t.Helper()
	raw, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	input := filepath.Join(dir, "cases.json")
	if err := os.WriteFile(input, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Torch string
		Cases []torchRates
	}
	inTorch(t, interpreter, &got, schedulersInTorch, input)
	t.Logf("continued by torch %s", got.Torch)
	return got.Cases
}
