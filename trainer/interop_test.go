package trainer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"rejoin/ckpt/hf"
	"rejoin/trainer"
)

// A trainerCase is what scripts/trainer_run.py reads.
type trainerCase struct {
	Layers        any            `json:"layers"`
	Loss          string         `json:"loss"`
	Input         string         `json:"input"`
	Target        string         `json:"target"`
	Data          string         `json:"data"`
	EvalData      string         `json:"eval_data,omitempty"`
	Init          string         `json:"init,omitempty"`
	Out           string         `json:"out"`
	Resume        string         `json:"resume,omitempty"`
	EarlyStopping map[string]any `json:"early_stopping,omitempty"`
	Args          map[string]any `json:"args"`
}

// interopPython is an interpreter with transformers; the test is skipped
// without one.
func interopPython(t *testing.T) string {
	t.Helper()
	return interopPythonWith(t, "import transformers, accelerate, torch")
}

// interopPythonWith is an interpreter that can run the imports; the test is skipped
// without one.
func interopPythonWith(t *testing.T, imports string) string {
	t.Helper()
	if os.Getenv("REJOIN_INTEROP") != "1" {
		t.Skip("REJOIN_INTEROP=1 runs this with real torch, from the python that REJOIN_PYTHON names")
	}
	python := os.Getenv("REJOIN_PYTHON")
	if python == "" {
		python = "python3"
	}
	if _, err := exec.LookPath(python); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, python, "-c", imports).CombinedOutput(); err != nil {
		t.Skipf("%s: %s: %v\n%.300s", python, imports, err, out)
	}
	return python
}

// runTrainer runs the real Trainer on two gloo ranks.
func runTrainer(t *testing.T, c *trainerCase) {
	t.Helper()
	python := interopPython(t)
	raw, err := json.Marshal(c)
	check(t, err)
	path := filepath.Join(t.TempDir(), "case.json")
	check(t, os.WriteFile(path, raw, 0o666))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	script := must[string](t)(filepath.Abs(filepath.Join("..", "scripts", "trainer_run.py")))
	cmd := exec.CommandContext(ctx, python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script, path)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // which it passes on to the ranks
	cmd.WaitDelay = 20 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the real Trainer: %v\n%s", err, out)
	}
}

func absolute(t *testing.T, parts ...string) string {
	t.Helper()
	return must[string](t)(filepath.Abs(testdata(parts...)))
}

// sets spells training arguments as --set takes them.
func sets(args map[string]any) (out []string) {
	for name, value := range args {
		if m, ok := value.(map[string]any); ok {
			raw, _ := json.Marshal(m) // of words and numbers; JSON is YAML
			value = string(raw)
		}
		out = append(out, fmt.Sprintf("%s=%v", name, value))
	}
	return out
}

var digitsLayers, regressionLayers = []int{64, 32, 10}, map[string][]int{"fc": {10, 1}}

// The real Trainer, with the two-worker bug mended, resumes from a checkpoint of
// ours and ends where our uninterrupted run ended.
func TestInteropTrainerResumesFromOurCheckpoint(t *testing.T) {
	for name, tc := range map[string]struct {
		run  trainerCase
		yaml string
		from []int
		last int
		init string // the run in testdata, whose end is known, that begins so
		set  []string
	}{
		"regression": {
			run: trainerCase{Layers: regressionLayers, Loss: "mse", Input: "x", Target: "y", Data: "regression.jsonl", Args: map[string]any{
				"per_device_train_batch_size": 4, "max_steps": 8, "save_steps": 2, "logging_steps": 1, "learning_rate": 0.01,
			}},
			yaml: "regression.yaml", from: []int{2}, last: 8,
		},
		"digits, accumulating, cosine with warm-up": {
			run: trainerCase{Layers: digitsLayers, Loss: "cross_entropy", Input: "x", Target: "label", Data: "digits.jsonl", Args: map[string]any{
				"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "max_steps": 14, "save_steps": 4, "logging_steps": 1,
				"learning_rate": 0.005, "weight_decay": 0.05, "warmup_steps": 3, "lr_scheduler_type": "cosine", "seed": 11,
			}},
			yaml: "digits-mlp.yaml", from: []int{12}, last: 14,
		},
		"evaluating, best model, stopping early": {
			run: trainerCase{
				Layers: []int{64, 16, 10}, Loss: "cross_entropy", Input: "x", Target: "label", Data: "digits.jsonl", EvalData: "digits-eval.jsonl",
				EarlyStopping: map[string]any{"early_stopping_patience": 3, "early_stopping_threshold": 0.01},
				Args: map[string]any{
					"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "max_steps": 40, "eval_strategy": "steps", "eval_steps": 2,
					"save_steps": 2, "logging_steps": 1, "learning_rate": 0.03, "load_best_model_at_end": true, "per_device_eval_batch_size": 8,
				},
			},
			yaml: "digits-small.yaml", from: []int{20}, last: 22, init: "eval-steps-w2",
			set: []string{"early_stopping_patience=3", "early_stopping_threshold=0.01"},
		},
		"lowering the rate on a plateau": {
			run: trainerCase{
				Layers: []int{64, 16, 10}, Loss: "cross_entropy", Input: "x", Target: "label", Data: "digits.jsonl", EvalData: "digits-eval.jsonl",
				Args: map[string]any{
					"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "max_steps": 24, "eval_strategy": "steps", "eval_steps": 2,
					"save_steps": 2, "logging_steps": 1, "learning_rate": 0.03, "per_device_eval_batch_size": 8, "lr_scheduler_type": "reduce_lr_on_plateau",
					"lr_scheduler_kwargs": map[string]any{"factor": 0.5, "patience": 1, "cooldown": 1, "threshold": 0.05, "threshold_mode": "abs"},
				},
			},
			yaml: "digits-small.yaml", from: []int{8, 10}, last: 24, init: "plateau-w2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			interopPython(t)
			run := tc.run
			run.Data = absolute(t, run.Data)
			if run.EvalData != "" {
				run.EvalData = absolute(t, run.EvalData)
			}
			ours := t.TempDir()
			r := &trainer.Request{Data: run.Data, EvalData: run.EvalData, Model: testdata(tc.yaml), OutputDir: ours, WorldSize: 2, Set: append(sets(run.Args), tc.set...)}
			if tc.init != "" {
				r.Init = testdata(tc.init, "initial_state_dict.pt")
			}
			trainRanks(t, r)
			for _, from := range tc.from {
				theirs := run
				theirs.Out, theirs.Resume = t.TempDir(), filepath.Join(ours, checkpointDir(from))
				if tc.set != nil {
					theirs.Args = map[string]any{"restore_callback_states_from_checkpoint": true}
					maps.Copy(theirs.Args, run.Args)
				}
				runTrainer(t, &theirs)
				compareEvalCheckpoints(t, filepath.Join(ours, checkpointDir(tc.last)), filepath.Join(theirs.Out, checkpointDir(tc.last)))
			}
		})
	}
}

// With its filter of such numbers off, the Trainer logs what we log when told to
// go on: NaN and infinity in the same places.
func TestInteropTrainerGoesOnLikeUs(t *testing.T) {
	interopPython(t)
	r, _ := poisoned(t, "Infinity", "on_nan=go-on")
	trainRanks(t, r)
	out := t.TempDir()
	runTrainer(t, &trainerCase{
		Layers: regressionLayers, Loss: "mse", Input: "x", Target: "y", Data: r.Data, Out: out,
		Args: map[string]any{
			"per_device_train_batch_size": 2, "max_steps": 10, "save_steps": 2, "logging_steps": 1, "learning_rate": 0.01, "logging_nan_inf_filter": false,
		},
	})
	ours := must[*hf.TrainerState](t)(openCheckpoint(t, filepath.Join(r.OutputDir, "checkpoint-10")).State()).LogHistory()
	theirs := must[*hf.TrainerState](t)(openCheckpoint(t, filepath.Join(out, "checkpoint-10")).State()).LogHistory()
	if len(ours) != 10 || len(theirs) != 10 {
		t.Fatalf("%d and %d entries", len(ours), len(theirs))
	}
	for i, want := range theirs {
		for _, key := range []string{"loss", "grad_norm", "learning_rate"} {
			a, b := ours[i][key].(float64), want[key].(float64)
			if a != b && !(math.IsNaN(a) && math.IsNaN(b)) && !(math.Abs(a-b) <= 1e-5*math.Abs(b)) {
				t.Errorf("entry %d: %s = %v, want %v", i, key, a, b)
			}
		}
	}
}
