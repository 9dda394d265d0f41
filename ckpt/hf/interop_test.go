package hf

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// python is an interpreter that can import torch: REJOIN_PYTHON, or python3.
// Without one the test is skipped, or fails if REJOIN_INTEROP is 1.
func python(t *testing.T) string {
	t.Helper()
	name := os.Getenv("REJOIN_PYTHON")
	if name == "" {
		name = "python3"
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, "-c", "import torch, numpy").CombinedOutput(); err != nil {
		if os.Getenv("REJOIN_INTEROP") == "1" {
			t.Fatalf("%s cannot import torch: %v\n%s", name, err, out)
		}
		t.Skipf("%s cannot import torch: %v", name, err)
	}
	return name
}

// pythonView is what testdata/interop.py tells of a directory.
type pythonView struct {
	Torch      string             `json:"torch"`
	LR         []float64          `json:"lr"`
	ExpAvg     []float64          `json:"exp_avg"`
	Step       []float64          `json:"step"`
	LastEpoch  int                `json:"last_epoch"`
	Draws      [][]float64        `json:"draws"`
	Weights    map[string]float64 `json:"weights"`
	GlobalStep int                `json:"global_step"`
	Losses     []float64          `json:"losses"`
	SameState  *bool              `json:"same_state"`
	Args       map[string]any     `json:"args"`
}

func inPython(t *testing.T, interpreter, dir string) pythonView {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, "testdata/interop.py", dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s cannot open what was written: %v", interpreter, err)
	}
	var v pythonView
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return v
}

// What the Trainer wrote and what is written here after reading it is the same
// to real torch and, where they are installed, to safetensors and transformers.
func TestInteropRealTorchReadsWhatIsWritten(t *testing.T) {
	interpreter := python(t)
	source := copyOf(t, "testdata/regression-w2/checkpoint-2", "checkpoint-2")
	c := open(t, source)
	contents := contentsOf(t, c, 2)
	args, _, err := c.TrainingArgs()
	if err != nil {
		t.Fatal(err)
	}
	args["learning_rate"] = 0.125
	args["lr_scheduler_type"] = "cosine"
	if contents.TrainingArgs, err = EncodeTrainingArgs(args); err != nil {
		t.Fatal(err)
	}
	run := t.TempDir()
	save(t, run, contents, false)

	theirs, ours := inPython(t, interpreter, source), inPython(t, interpreter, filepath.Join(run, "checkpoint-2"))
	t.Logf("torch %s; transformers: %t; safetensors: %t", ours.Torch, ours.Args != nil, ours.Weights != nil)
	oursArgs := ours.Args
	theirs.Args, ours.Args = nil, nil
	if !reflect.DeepEqual(theirs, ours) {
		t.Errorf("torch reads\n%+v from our checkpoint,\n%+v from the Trainer's", ours, theirs)
	}
	if len(ours.LR) != 2 || len(ours.Draws) != 2 || ours.LastEpoch != 2 {
		t.Errorf("torch reads %+v", ours)
	}
	if oursArgs == nil {
		return
	}
	if ours.SameState == nil || !*ours.SameState || ours.GlobalStep != 2 {
		t.Errorf("transformers reads the state as %+v", ours)
	}
	want := map[string]any{
		"class": "TrainingArguments", "learning_rate": 0.125, "lr_scheduler_type": "<SchedulerType.COSINE: 'cosine'>",
		"optim": "<OptimizerNames.ADAMW_TORCH_FUSED: 'adamw_torch_fused'>", "even_batches": true, "num_processes": 2.0, "world_size": 2.0,
		"device": "cpu:0", "train_batch_size": 4.0, "eval_strategy": "no",
	}
	if !reflect.DeepEqual(oursArgs, want) {
		t.Errorf("transformers reads the arguments as %v, want %v", oursArgs, want)
	}
}

// Fresh states are those of random.seed and np.random.seed.
func TestInteropSeeding(t *testing.T) {
	interpreter := python(t)
	source := open(t, "testdata/digits-w1/checkpoint-3")
	contents := contentsOf(t, source, 1)
	contents.RandomStates[0] = NewRandomState(contents.RandomStates[0].CPU, 123, 4294967295)
	run := t.TempDir()
	save(t, run, contents, false)
	got := inPython(t, interpreter, filepath.Join(run, "checkpoint-3")).Draws

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, interpreter, "-c",
		"import json, random, numpy; random.seed(123); numpy.random.seed(4294967295); print(json.dumps([random.random(), numpy.random.rand()]))").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0][0] != want[0] || got[0][1] != want[1] {
		t.Errorf("draws %v, Python draws %v", got, want)
	}
}
