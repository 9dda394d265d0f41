package optim

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rejoin/ckpt/torchfile"
)

// continueInTorch loads an optimizer's and a scheduler's state into torch, makes
// further steps, and prints the values that result, per step.
const continueInTorch = `
import json, sys, torch
job = json.load(open(sys.argv[1]))
params = [torch.nn.Parameter(torch.tensor(p["values"]).reshape(p["shape"])) for p in job["params"]]
groups = [dict(params=[params[i] for i in g["params"]], weight_decay=g["weight_decay"]) for g in job["groups"]]
opt = torch.optim.AdamW(groups, lr=123.0)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: max(0.0, float(12 - s) / 12))
opt.load_state_dict(torch.load(sys.argv[2]))
sched.load_state_dict(torch.load(sys.argv[3]))
for grads in job["grads"]:
    for p, g in zip(params, grads):
        p.grad = torch.tensor(g).reshape(p.shape)
    opt.step()
    sched.step()
json.dump(dict(torch=torch.__version__, lr=sched.get_last_lr()[0], steps=[int(opt.state[p]["step"]) for p in params],
               values=[p.detach().flatten().tolist() for p in params]), sys.stdout)
`

// python is the interpreter that must have torch, or the test is skipped:
// importing torch takes seconds.
func python(t *testing.T) string {
	t.Helper()
	if os.Getenv("REJOIN_INTEROP") != "1" {
		t.Skip("REJOIN_INTEROP=1 runs this with real torch, from the python that REJOIN_PYTHON names")
	}
	if path := os.Getenv("REJOIN_PYTHON"); path != "" {
		return path
	}
	return "python3"
}

// inTorch runs a script on torch and decodes the JSON that it prints.
func inTorch(t *testing.T, interpreter string, printed any, script string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, append([]string{"-c", script}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if err := json.Unmarshal(out, printed); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
}

// writeObject writes a state dict as torch.save does.
func writeObject(t *testing.T, path string, object any) string {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := torchfile.Write(f, torchfile.ArchiveName(path), object); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Real torch loads the state we write, goes on from it, and arrives where we
// arrive: learning rates equal, values to rounding error, because older torch
// orders Adam's operations otherwise.
func TestInteropTorchContinues(t *testing.T) {
	interpreter := python(t)
	params, a := mlp(t, func(o *Options) { o.Implementation = SingleTensor })
	schedule, err := NewSchedule("linear", 0, 12, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewScheduler(a, schedule)
	if err != nil {
		t.Fatal(err)
	}
	step := func(n int) {
		setGrads(params, n)
		a.Step()
		s.Step()
	}
	for n := range 4 {
		step(n)
	}
	type group struct {
		Params      []int   `json:"params"`
		WeightDecay float64 `json:"weight_decay"`
	}
	type param struct {
		Values []float32 `json:"values"`
		Shape  []int     `json:"shape"`
	}
	job := struct {
		Params []param       `json:"params"`
		Groups []group       `json:"groups"`
		Grads  [][][]float32 `json:"grads"`
	}{Groups: []group{{[]int{0, 2}, 0}, {[]int{1, 3}, 0}}}
	for _, p := range params {
		job.Params = append(job.Params, param{append([]float32{}, p.Values...), p.Shape})
	}
	dir := t.TempDir()
	optimizer := writeObject(t, filepath.Join(dir, "optimizer.pt"), a.StateDict())
	scheduler := writeObject(t, filepath.Join(dir, "scheduler.pt"), s.StateDict())
	for n := 4; n < 9; n++ {
		step(n)
		var grads [][]float32
		for _, p := range params {
			grads = append(grads, append([]float32{}, p.Grad...))
		}
		job.Grads = append(job.Grads, grads)
	}
	raw, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	input := filepath.Join(dir, "job.json")
	if err := os.WriteFile(input, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Torch  string
		LR     float64
		Steps  []int
		Values [][]float64
	}
	inTorch(t, interpreter, &got, continueInTorch, input, optimizer, scheduler)
	t.Logf("continued by torch %s", got.Torch)
	if got.LR != s.LastLR()[0] {
		t.Errorf("torch's learning rate is %v, ours %v", got.LR, s.LastLR()[0])
	}
	if fmt.Sprint(got.Steps) != "[9 9 9 9]" {
		t.Errorf("torch counts the steps %v, want 9 each", got.Steps)
	}
	for i, p := range params {
		for j, v := range p.Values {
			if math.Abs(got.Values[i][j]-float64(v)) > 5e-7 {
				t.Errorf("%s[%d]: torch has %v, we %v", p.Name, j, got.Values[i][j], v)
			}
		}
	}
}
