package optim

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// continueSGD loads, for each scheduler, an SGD's and its own state into torch,
// makes five more steps of known gradients, and prints what results.
const continueSGD = `
import json, sys, torch
make = dict(StepLR=lambda opt: torch.optim.lr_scheduler.StepLR(opt, 77),
            MultiStepLR=lambda opt: torch.optim.lr_scheduler.MultiStepLR(opt, [77]),
            CosineAnnealingLR=lambda opt: torch.optim.lr_scheduler.CosineAnnealingLR(opt, 77))
out = {}
for name, values in json.load(open(sys.argv[1] + "/start.json")).items():
    params = [torch.nn.Parameter(torch.tensor(v)) for v in values]
    opt = torch.optim.SGD(params, lr=123.0)
    sched = make[name](opt)
    opt.load_state_dict(torch.load(f"{sys.argv[1]}/{name}-optimizer.pt"))
    sched.load_state_dict(torch.load(f"{sys.argv[1]}/{name}-scheduler.pt"))
    for step in range(5):
        for p in params:
            p.grad = torch.full_like(p, 0.5 + step)
        opt.step()
        sched.step()
    out[name] = dict(lr=sched.get_last_lr()[0], values=[p.tolist() for p in params])
json.dump(out, sys.stdout)
`

// sgdEnd is where a run ends.
type sgdEnd struct {
	LR     float64
	Values [][]float32
}

// sgdRun makes three steps, writes the state to dir, and makes five more.
func sgdRun(t *testing.T, dir, name string) (start [][]float32, end sgdEnd) {
	t.Helper()
	params := []*Param{testParam("a", 9), testParam("b", 4)}
	opt := newSGD(t, Options{LR: 0.1, Momentum: 0.9, Nesterov: true, WeightDecay: 0.01}, params)
	s, err := schedulersAtFive()[name](opt)
	if err != nil {
		t.Fatal(err)
	}
	steps := func(n int) {
		for step := range n {
			for _, p := range params {
				for i := range p.Grad {
					p.Grad[i] = 0.5 + float32(step)
				}
			}
			opt.Step()
			s.Step()
		}
	}
	steps(3)
	for _, p := range params {
		start = append(start, slices.Clone(p.Values))
		end.Values = append(end.Values, p.Values)
	}
	writeObject(t, filepath.Join(dir, name+"-optimizer.pt"), opt.StateDict())
	writeObject(t, filepath.Join(dir, name+"-scheduler.pt"), s.StateDict())
	steps(5)
	end.LR = s.LastLR()[0]
	return start, end
}

// Real torch goes on from our SGD and from our form of its own schedulers.
func TestInteropTorchContinuesSGD(t *testing.T) {
	interpreter := python(t)
	dir := t.TempDir()
	starts, ours := map[string][][]float32{}, map[string]sgdEnd{}
	for _, name := range []string{"StepLR", "MultiStepLR", "CosineAnnealingLR"} {
		starts[name], ours[name] = sgdRun(t, dir, name)
	}
	raw, err := json.Marshal(starts)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "start.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	var theirs map[string]sgdEnd
	inTorch(t, interpreter, &theirs, continueSGD, dir)
	for name, want := range ours {
		got := theirs[name]
		if len(got.Values) != len(want.Values) || math.Abs(got.LR-want.LR) > 1e-16 {
			t.Fatalf("%s: torch's learning rate is %v, ours %v", name, got.LR, want.LR)
		}
		for i := range want.Values {
			for j, v := range want.Values[i] {
				if math.Abs(float64(got.Values[i][j]-v)) > 1e-6 {
					t.Errorf("%s: parameter %d, element %d: torch has %v, we %v", name, i, j, got.Values[i][j], v)
				}
			}
		}
	}
}
