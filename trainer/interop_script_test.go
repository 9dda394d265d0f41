package trainer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rejoin/tensor"
	"rejoin/trainer"
)

// scheduledCase is what scripts/scheduled_run.py reads.
type scheduledCase struct {
	Data          string         `json:"data"`
	EvalData      string         `json:"eval_data"`
	Optimizer     string         `json:"optimizer"`
	OptimizerArgs map[string]any `json:"optimizer_args"`
	Scheduler     string         `json:"scheduler"`
	SchedulerArgs map[string]any `json:"scheduler_args"`
	By            string         `json:"by"`
	Counts        string         `json:"counts"`
	Late          bool           `json:"late"`
	Epochs        int            `json:"epochs"`
	SaveAfter     int            `json:"save_after"`
	Out           string         `json:"out"`
}

// Scripts that real torch runs, with each of its schedulers, stepped and saved in
// the ways that people do it: their dicts go on to the same learning rates, bit
// for bit, and to the same weights.
func TestInteropScriptsWithSchedulers(t *testing.T) {
	python := os.Getenv("REJOIN_PYTHON")
	if os.Getenv("REJOIN_INTEROP") != "1" || python == "" {
		t.Skip("REJOIN_INTEROP=1 runs this with real torch, from the python that REJOIN_PYTHON names")
	}
	adam, sgd := map[string]any{"lr": 0.004}, map[string]any{"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}
	step := map[string]any{"step_size": 2, "gamma": 0.3}
	plateau := map[string]any{"factor": 0.5, "patience": 0, "threshold": 0.2, "threshold_mode": "abs"}
	cases := []scheduledCase{
		{Optimizer: "Adam", OptimizerArgs: adam, Scheduler: "StepLR", SchedulerArgs: step, By: "epoch", Counts: "done"},
		{Optimizer: "SGD", OptimizerArgs: sgd, Scheduler: "StepLR", SchedulerArgs: step, By: "epoch", Counts: "number"},
		{Optimizer: "SGD", OptimizerArgs: sgd, Scheduler: "StepLR", SchedulerArgs: step, By: "epoch", Counts: "done"},
		{Optimizer: "Adam", OptimizerArgs: adam, Scheduler: "StepLR", SchedulerArgs: step, By: "epoch", Counts: "done", Late: true}, // D14
		{Optimizer: "AdamW", OptimizerArgs: adam, Scheduler: "MultiStepLR", SchedulerArgs: map[string]any{"milestones": []int{20, 37, 61}}, By: "update", Counts: "done"},
		{Optimizer: "Adam", OptimizerArgs: adam, Scheduler: "CosineAnnealingLR", SchedulerArgs: map[string]any{"T_max": 5, "eta_min": 1e-5}, By: "epoch", Counts: "done"},
		{Optimizer: "Adam", OptimizerArgs: adam, Scheduler: "CosineAnnealingLR", SchedulerArgs: map[string]any{"T_max": 75}, By: "update", Counts: "number"},
		{Optimizer: "Adam", OptimizerArgs: adam, Scheduler: "ReduceLROnPlateau", SchedulerArgs: plateau, By: "epoch", Counts: "done"},
		{Optimizer: "Adam", OptimizerArgs: adam, Scheduler: "ReduceLROnPlateau", SchedulerArgs: plateau, By: "epoch", Counts: "done", Late: true},
	}
	dir := t.TempDir()
	for i := range cases {
		c := &cases[i]
		c.Data, c.EvalData, c.Epochs, c.SaveAfter = absolute(t, "digits.jsonl"), absolute(t, "digits-eval.jsonl"), 5, 2
		c.Out = filepath.Join(dir, fmt.Sprintf("epoch-%d.pth", i))
	}
	for i, want := range runScripts(t, python, dir, cases) {
		c := cases[i]
		t.Run(fmt.Sprintf("%d %s of %s by %s", i, c.Scheduler, c.Optimizer, c.By), func(t *testing.T) {
			out := t.TempDir()
			r := &trainer.Request{
				Checkpoint: c.Out, Data: c.Data, Model: testdata("digits-ddp.yaml"), OutputDir: out, WorldSize: 1, Sampler: "distributed",
				Set: []string{"per_device_train_batch_size=20", "num_train_epochs=5", "data_seed=0", "logging_steps=1", "save_strategy=epoch", "per_device_eval_batch_size=41"},
			}
			if c.Scheduler == "ReduceLROnPlateau" {
				r.EvalData = c.EvalData
			}
			switch c.Optimizer {
			case "SGD":
				r.Set = append(r.Set, "optim_args=momentum=0.9")
			case "AdamW": // torch 1.13 does not tell it from Adam
				r.Set = append(r.Set, "optim=adamw_torch")
			}
			s, errs := tryRanks(t, r)
			check(t, errors.Join(errs...))
			if late := strings.Contains(s.warns.String(), "saved before its "+c.Scheduler); late != c.Late {
				t.Errorf("it was saved late: %v, said:\n%s", c.Late, s.warns.String())
			}
			last := filepath.Join(out, checkpointDir(75))
			if got := loggedRates(t, last); !slices.Equal(got, want.Rates) {
				t.Errorf("learning rates are\n%v, want\n%v", stretches(got), stretches(want.Rates))
			}
			if len(stretches(want.Rates)) < 2 {
				t.Errorf("the learning rate is always %v", want.Rates[0])
			}
			weights := must[*tensor.StateDict](t)(openCheckpoint(t, last).Weights())
			for name, values := range want.Weights {
				w, ok := weights.Get(name)
				if !ok {
					t.Fatalf("weight %s is missing", name)
				}
				for j, v := range floats(t, w) {
					if !(math.Abs(float64(v)-values[j]) <= 1e-5) {
						t.Fatalf("%s[%d] is %v, want %v", name, j, v, values[j])
					}
				}
			}
		})
	}
}

type scheduledRun struct {
	Rates   []float64
	Weights map[string][]float64
}

func runScripts(t *testing.T, python, dir string, cases []scheduledCase) (runs []scheduledRun) {
	t.Helper()
	path := filepath.Join(dir, "cases.json")
	check(t, os.WriteFile(path, must[[]byte](t)(json.Marshal(cases)), 0o666))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, filepath.Join("..", "scripts", "scheduled_run.py"), path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	check(t, json.Unmarshal(out, &runs))
	return runs
}
