package trainer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt"
	"rejoin/ckpt/dictfile"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
	"rejoin/trainer"
)

// scriptRun resumes raw-ddp-w2, a hand-written script's run, with all that its
// dict does not say.
func scriptRun(file, out string) *trainer.Request {
	return &trainer.Request{
		Checkpoint: file, Data: testdata("digits.jsonl"), Model: testdata("digits-ddp.yaml"), OutputDir: out, WorldSize: 2,
		Sampler: "distributed", AlsoDict: true, Trace: true,
		Set: []string{"per_device_train_batch_size=16", "num_train_epochs=4", "data_seed=0", "logging_steps=1", "save_strategy=epoch"},
	}
}

type scriptStep struct {
	Epoch int
	Rows  []int
	Loss  float64
}

// The dict that a script of two GPUs saved after epoch 1, zip or legacy, goes on
// as the script did: rows, losses and the state at the end.
func TestScriptsDictResumes(t *testing.T) {
	for _, file := range []string{"checkpoint_epoch_1.pth", "legacy.pth"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			s := trainRanks(t, scriptRun(testdata("raw-ddp-w2", file), out))
			for _, want := range []string{
				`a training script's own dict, with weights (4 tensors under "model_state_dict", named with the prefix "module.")`,
				"saved after epoch 1, update 20, as its optimizer counts: training goes on at the start of epoch 2", "cuda:0", "checkpoint-40.pth: saved, as a training script's dict",
			} {
				if said := s.warns.String() + s.lines.String(); !strings.Contains(said, want) {
					t.Errorf("%q is not in %s", want, said)
				}
			}
			compareScriptSteps(t, out)
			compareScriptStates(t, filepath.Join(out, "checkpoint-40.pth"), testdata("raw-ddp-w2", "final.pth"))
		})
	}
}

// compareScriptSteps wants every rank's rows equal and losses within 1e-5.
func compareScriptSteps(t *testing.T, out string) {
	t.Helper()
	for rank := range 2 {
		name := fmt.Sprintf("trace-rank%d.json", rank)
		var theirs []scriptStep
		check(t, json.Unmarshal(must[[]byte](t)(os.ReadFile(testdata("raw-ddp-w2", name))), &theirs))
		theirs = slices.DeleteFunc(theirs, func(s scriptStep) bool { return s.Epoch < 2 })
		var ours struct {
			Rows   [][]int `json:"micro_batches"`
			Losses []float64
		}
		check(t, json.Unmarshal(must[[]byte](t)(os.ReadFile(filepath.Join(out, name))), &ours))
		if len(ours.Rows) != len(theirs) || len(ours.Losses) != len(theirs) {
			t.Fatalf("rank %d trained %d batches, want %d", rank, len(ours.Rows), len(theirs))
		}
		worst := 0.0
		for i, want := range theirs {
			if !slices.Equal(ours.Rows[i], want.Rows) {
				t.Fatalf("rank %d, batch %d: rows %v, want %v", rank, i, ours.Rows[i], want.Rows)
			}
			worst = max(worst, math.Abs(ours.Losses[i]-want.Loss))
		}
		if t.Logf("rank %d: losses within %.2g", rank, worst); !(worst <= 1e-5) {
			t.Errorf("rank %d: losses are off by %.2g, allowed 1e-5", rank, worst)
		}
	}
}

func readScript(t *testing.T, path string) (*pyobj.Dict, *dictfile.Contents) {
	t.Helper()
	opened := must[*ckpt.Checkpoint](t)(ckpt.Open(path, ckpt.Options{}))
	t.Cleanup(func() { opened.Close() })
	return opened.Object().(*pyobj.Dict), must[*dictfile.Contents](t)(dictfile.Recognise(opened.Object()))
}

// compareScriptStates wants weights and moments within 1e-6, groups equal.
func compareScriptStates(t *testing.T, oursPath, theirsPath string) {
	t.Helper()
	_, ours := readScript(t, oursPath)
	_, theirs := readScript(t, theirsPath)
	if ours.Epoch != theirs.Epoch {
		t.Errorf("epoch is %d, want %d", ours.Epoch, theirs.Epoch)
	}
	for _, name := range theirs.Weights.Names() {
		a, ok := ours.Weights.Get("module." + name)
		if !ok {
			t.Fatalf("weight module.%s is missing: there are %v", name, ours.Weights.Names())
		}
		b, _ := theirs.Weights.Get(name)
		x, y := floats(t, a), floats(t, b)
		for i := range x {
			if !(math.Abs(float64(x[i]-y[i])) <= 1e-6) {
				t.Fatalf("%s[%d] is %v, want %v", name, i, x[i], y[i])
			}
		}
	}
	group := func(c *dictfile.Contents) *pyobj.Dict {
		g := get(t, c.Optimizer, "param_groups").(*pyobj.List).Items[0].(*pyobj.Dict)
		out := pyobj.NewDict()
		for _, e := range g.Entries() {
			if e.Key != "initial_lr" { // a scheduler's mark, which the script has not
				out.Set(e.Key, e.Value)
			}
		}
		return out
	}
	compareValues(t, "param_groups", group(ours), group(theirs))
	wantState, gotState := get(t, theirs.Optimizer, "state").(*pyobj.Dict), get(t, ours.Optimizer, "state").(*pyobj.Dict)
	for _, e := range wantState.Entries() {
		g := get(t, gotState, e.Key).(*pyobj.Dict)
		for key, tolerance := range map[string]float64{"step": 0, "exp_avg": 5e-6, "exp_avg_sq": 5e-6} {
			compareTensors(t, fmt.Sprint(e.Key, key), get(t, g, key).(*tensor.Tensor), get(t, e.Value.(*pyobj.Dict), key).(*tensor.Tensor), tolerance)
		}
	}
}

// The dict that is written has the keys and prefix of the one that was read, all
// of it on the CPU; it, and the directory beside it, resume to the same end.
func TestScriptsDictIsWrittenBack(t *testing.T) {
	out := t.TempDir()
	trainRanks(t, scriptRun(testdata("raw-ddp-w2", "checkpoint_epoch_1.pth"), out))
	theirs, _ := readScript(t, testdata("raw-ddp-w2", "checkpoint_epoch_1.pth"))
	ours, contents := readScript(t, filepath.Join(out, "checkpoint-30.pth"))
	keys := func(d *pyobj.Dict) (names []string) {
		for _, e := range d.Entries() {
			names = append(names, e.Key.(string))
		}
		return names
	}
	if !slices.Equal(keys(ours), keys(theirs)) {
		t.Errorf("keys are %v, want %v", keys(ours), keys(theirs))
	}
	for key, want := range map[string]any{"epoch": int64(2), "device": "cpu", "description": "two-GPU run"} {
		if got := get(t, ours, key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if loss, ok := get(t, ours, "loss").(float64); !ok || !(loss > 0 && loss < 3) {
		t.Errorf("loss is %v", get(t, ours, "loss"))
	}
	if contents.Prefix != "module." {
		t.Errorf("prefix is %q", contents.Prefix)
	}
	for tag := range must[*torchfile.File](t)(torchfile.Open(filepath.Join(out, "checkpoint-30.pth"), torchfile.Options{})).Tags() {
		if tag != "cpu" {
			t.Errorf("a storage is tagged %s", tag)
		}
	}
	want := files(t, filepath.Join(out, "checkpoint-40"))
	for _, from := range []string{"checkpoint-30.pth", "checkpoint-30"} {
		again := t.TempDir()
		r := scriptRun(filepath.Join(out, from), again)
		if from == "checkpoint-30" {
			r = &trainer.Request{Checkpoint: filepath.Join(out, from), OutputDir: again, WorldSize: 2}
		}
		trainRanks(t, r)
		got := files(t, filepath.Join(again, "checkpoint-40"))
		for _, name := range []string{"model.safetensors", "optimizer.pt", "scheduler.pt"} {
			if got[name] == "" || got[name] != want[name] {
				t.Errorf("from %s: %s differs", from, name)
			}
		}
	}
}

// Without a script's dict to go by, --also-dict writes the tutorial's; none in
// the middle of an epoch.
func TestAlsoDictOfTheTutorial(t *testing.T) {
	out := t.TempDir()
	trainRanks(t, &trainer.Request{
		Config: testdata("digits-epoch-train.yaml"), Data: testdata("digits.jsonl"), Model: testdata("digits-small.yaml"),
		OutputDir: out, WorldSize: 2, AlsoDict: true, Set: []string{"max_steps=11"},
	})
	d, contents := readScript(t, filepath.Join(out, "checkpoint-9.pth"))
	if d.Len() != 4 || contents.Epoch != 0 || contents.Prefix != "" || contents.Optimizer == nil {
		t.Errorf("it holds %s", contents.Holds())
	}
	if _, err := os.Stat(filepath.Join(out, "checkpoint-11.pth")); err == nil {
		t.Error("there is a dict in the middle of an epoch")
	}
}

func TestScriptsDictLacks(t *testing.T) {
	dict := testdata("raw-ddp-w2", "checkpoint_epoch_1.pth")
	_, _, err := trainer.Resolve(&trainer.Request{Checkpoint: dict, OutputDir: t.TempDir(), WorldSize: 2})
	lacks, ok := errors.AsType[*trainer.LacksError](err)
	if !ok {
		t.Fatalf("error is %v (%T), want a *LacksError", err, err)
	}
	for _, want := range []string{
		"an optimizer's state", "the epoch (1)", "--set per_device_train_batch_size=16", "--set num_train_epochs=4", "--sampler distributed", "--set data_seed=0", "--model FILE.yaml", "--data FILE",
	} {
		if !strings.Contains(lacks.Error(), want) {
			t.Errorf("%q is not in %v", want, lacks)
		}
	}
	one := scriptRun(dict, t.TempDir())
	one.Set = slices.DeleteFunc(one.Set, func(s string) bool { return strings.HasPrefix(s, "data_seed") })
	_, _, err = trainer.Resolve(one)
	if lacks, ok = errors.AsType[*trainer.LacksError](err); !ok || len(lacks.Lacks) != 1 || lacks.Lacks[0].Flag != "--set data_seed=0" {
		t.Errorf("without a seed: %v", err)
	}
}

// Dicts of other scripts: what can be told is taken, what cannot is refused by name.
func TestOtherScriptsDicts(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(t *testing.T, d *pyobj.Dict)
		set     func(*trainer.Request)
		refused string
		says    string
	}{
		{"weights only", func(t *testing.T, d *pyobj.Dict) { t.Helper(); *d = *get(t, d, "model_state_dict").(*pyobj.Dict) }, nil, "it holds weights only (4 tensors); `launch train --init FILE` begins a new run", ""},
		{"no epoch", without("epoch"), nil, "It does not say, and a resume needs", ""},
		{"epoch is text", func(_ *testing.T, d *pyobj.Dict) { d.Set("epoch", "two") }, nil, `key "epoch": expected a number of an epoch, found str`, ""},
		{"no optimizer", without("optimizer_state_dict"), nil, "an optimizer's state is missing: this checkpoint cannot be resumed exactly. Name a complete checkpoint, or go on without the file with --fresh-optimizer", ""},
		{"fresh optimizer", without("optimizer_state_dict"), func(r *trainer.Request) { r.FreshOptimizer = true }, "--set learning_rate=1e-3", ""},
		{"fresh optimizer, said", without("optimizer_state_dict"), func(r *trainer.Request) {
			r.FreshOptimizer, r.Set = true, append(r.Set, "optim=adam", "learning_rate=0.004")
		}, "", "the loss may jump"},
		{"epochs done", func(_ *testing.T, d *pyobj.Dict) { d.Set("epoch", int64(2)) }, nil, "", "saved after 2 epochs, update 20, as its optimizer counts: training goes on at the start of epoch 2"},
		{"another batch size", nil, func(r *trainer.Request) { r.Set = append(r.Set, "per_device_train_batch_size=8") }, "", "its optimizer made 20 updates, but with these arguments (2 ranks × 8 rows × 1 accumulated) an epoch has 19"},
		{"StepLR without its gamma", func(_ *testing.T, d *pyobj.Dict) {
			d.Set("scheduler", pyobj.NewDict("step_size", int64(1), "last_epoch", int64(2)))
		}, nil, "gamma of its StepLR is missing: this checkpoint cannot be resumed exactly. Name a complete checkpoint, or go on without the file with --fresh-scheduler --set lr_scheduler_type=step", ""},
		{"old Adam with decay", func(t *testing.T, d *pyobj.Dict) {
			t.Helper()
			oldGroup(t, d).Set("weight_decay", 0.1)
		}, nil, "--set optim=adam, or optim=adamw_torch", ""},
		{"old Adam without", func(t *testing.T, d *pyobj.Dict) { t.Helper(); oldGroup(t, d) }, nil, "", "resume: OK"},
		{"Adagrad", func(t *testing.T, d *pyobj.Dict) {
			t.Helper()
			*oldGroup(t, d) = *pyobj.NewDict("lr", 0.1, "lr_decay", 0.0)
		}, nil, "its optimizer is none of Adam, AdamW and SGD", ""},
		{"unknown sampler", nil, func(r *trainer.Request) { r.Sampler = "random" }, `--sampler: found "random", expected seedable_random`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d, _ := readScript(t, testdata("raw-ddp-w2", "checkpoint_epoch_1.pth"))
			if tc.change != nil {
				tc.change(t, d)
			}
			r := scriptRun(writeTorch(t, d), t.TempDir())
			if tc.set != nil {
				tc.set(r)
			}
			s, errs := tryRanks(t, r)
			err := errors.Join(errs...)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("error is %v, want %q in it", err, tc.refused)
				}
				return
			}
			check(t, err)
			if said := s.warns.String() + s.lines.String(); !strings.Contains(said, tc.says) {
				t.Errorf("%q is not in %s", tc.says, said)
			}
		})
	}
}

func without(key string) func(*testing.T, *pyobj.Dict) {
	return func(_ *testing.T, d *pyobj.Dict) {
		rest := pyobj.NewDict()
		for _, e := range d.Entries() {
			if e.Key != key {
				rest.Set(e.Key, e.Value)
			}
		}
		*d = *rest
	}
}

// oldGroup makes the optimizer's group what torch before 2.7 wrote.
func oldGroup(t *testing.T, d *pyobj.Dict) *pyobj.Dict {
	t.Helper()
	g := get(t, get(t, d, "optimizer_state_dict").(*pyobj.Dict), "param_groups").(*pyobj.List).Items[0].(*pyobj.Dict)
	without("decoupled_weight_decay")(t, g)
	return g
}
