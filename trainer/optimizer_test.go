package trainer_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt/hf"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
	"rejoin/trainer"
)

// digitsRun resumes digits-mlp-w2 at a checkpoint, which may be a changed copy.
func digitsRun(checkpoint, out string) *trainer.Request {
	return &trainer.Request{Checkpoint: checkpoint, Data: testdata("digits.jsonl"), Model: testdata("digits-mlp.yaml"), OutputDir: out, WorldSize: 2}
}

// Every optimizer and schedule trains 8 updates, and 4 and 4 after a resume, to
// the same bytes.
func TestOptimizersAndSchedulesResume(t *testing.T) {
	for name, set := range map[string][]string{
		"sgd":                       {"optim=sgd", "learning_rate=0.05"},
		"sgd with momentum":         {"optim=sgd", "learning_rate=0.05", "optim_args=momentum=0.9,nesterov=true", "weight_decay=0.01"},
		"adam":                      {"optim=adam", "weight_decay=0.01"},
		"adam with amsgrad":         {"optim=adam", "optim_args=amsgrad=True"},
		"adamw":                     {"optim=adamw_torch"},
		"cosine with restarts":      {"lr_scheduler_type=cosine_with_restarts", "lr_scheduler_kwargs={num_cycles: 2}", "warmup_steps=2"},
		"cosine down to a minimum":  {"lr_scheduler_type=cosine_with_min_lr", "lr_scheduler_kwargs={min_lr: 0.001}"},
		"polynomial":                {"lr_scheduler_type=polynomial", "lr_scheduler_kwargs={power: 1.5}", "warmup_steps=4"},
		"inverse square root":       {"lr_scheduler_type=inverse_sqrt", "warmup_steps=4"},
		"linear to its warm-up's 4": {"lr_scheduler_type=linear", "warmup_steps=4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(out string) *trainer.Request {
				return &trainer.Request{
					Init: testdata("digits-mlp-w2", "initial_state_dict.pt"), Config: testdata("digits-mlp-train.yaml"),
					Data: testdata("digits.jsonl"), Model: testdata("digits-mlp.yaml"), OutputDir: out, WorldSize: 2,
					Set: append([]string{"max_steps=8", "save_steps=4"}, set...),
				}
			}
			straight, resumed := t.TempDir(), t.TempDir()
			trainRanks(t, run(straight))
			trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(straight, "checkpoint-4"), OutputDir: resumed, WorldSize: 2})
			want, got := files(t, filepath.Join(straight, "checkpoint-8")), files(t, filepath.Join(resumed, "checkpoint-8"))
			if len(got) != len(want) {
				t.Errorf("%d files, want %d", len(got), len(want))
			}
			for name := range want {
				if got[name] != want[name] {
					t.Errorf("%s differs", name)
				}
			}
			_, hasArgs := want[hf.TrainingArgsFile]
			if ours := strings.HasPrefix(set[0], "optim=adam") && set[0] != "optim=adamw_torch"; hasArgs == ours {
				t.Errorf("training_args.bin is there: %v", hasArgs)
			}
		})
	}
}

func TestUnknownOptimizerArguments(t *testing.T) {
	for _, tc := range []struct{ optim, args, want string }{
		{"adagrad", "", "training argument optim: found adagrad, expected one of adamw_torch, adamw_torch_fused, sgd, adam"},
		{"sgd", "momentum=high", "optim_args: found momentum=high"},
		{"sgd", "amsgrad=true", "optim_args: found amsgrad=true, expected name=value of optim sgd"},
		{"adamw_torch", "momentum=0.9", "expected name=value of optim adamw_torch"},
		{"adam", "amsgrad", "optim_args: found amsgrad"},
	} {
		_, _, err := trainer.Resolve(&trainer.Request{
			Data: testdata("digits.jsonl"), Model: testdata("digits-mlp.yaml"), OutputDir: t.TempDir(), WorldSize: 1,
			Set: []string{"optim=" + tc.optim, "optim_args=" + tc.args},
		})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("optim %s, optim_args %s: %v, want %q", tc.optim, tc.args, err, tc.want)
		}
	}
}

// A checkpoint that lacks a state is refused with the choice that there is; one that is
// made says what it means (D15, unitaryai/detoxify#45).
func TestMissingStates(t *testing.T) {
	for _, tc := range []struct {
		name    string
		missing []string
		set     func(*trainer.Request)
		refused string   // "" goes on
		says    []string // in warnings and lines
	}{
		{"no optimizer", []string{"optimizer.pt"}, nil, "optimizer.pt is missing: this checkpoint cannot be resumed exactly. Name a complete checkpoint, or go on without the file with --fresh-optimizer: the optimizer's moments begin at zero, so that the loss may jump", nil},
		{"no scheduler", []string{"scheduler.pt"}, nil, "scheduler.pt is missing: this checkpoint cannot be resumed exactly. Name a complete checkpoint, or go on without the file with --fresh-scheduler: the learning rate is the one", nil},
		{"weights only", []string{"optimizer.pt", "scheduler.pt"}, nil, "optimizer.pt is missing", nil},
		{"no optimizer, scheduler's flag", []string{"optimizer.pt"}, func(r *trainer.Request) { r.FreshScheduler = true }, "--fresh-optimizer", nil},
		{"fresh optimizer", []string{"optimizer.pt"}, func(r *trainer.Request) { r.FreshOptimizer = true }, "", []string{"the loss may jump"}},
		{"fresh scheduler", []string{"scheduler.pt"}, func(r *trainer.Request) { r.FreshScheduler = true }, "", []string{"--fresh-scheduler: the learning rate is the one that the arguments' schedule has"}},
		{"both fresh", []string{"optimizer.pt", "scheduler.pt"}, func(r *trainer.Request) { r.FreshOptimizer = true }, "", []string{"the loss may jump", "--fresh-scheduler"}},
		{"fresh though it is there", nil, func(r *trainer.Request) { r.FreshOptimizer = true }, "", []string{"the loss may jump"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := copyDir(t, testdata("digits-mlp-w2", "checkpoint-4"))
			for _, name := range tc.missing {
				check(t, os.Remove(filepath.Join(dir, name)))
			}
			out := t.TempDir()
			r := digitsRun(dir, out)
			if tc.set != nil {
				tc.set(r)
			}
			s, errs := tryRanks(t, r)
			if tc.refused != "" {
				err := errors.Join(errs...)
				missing, ok := errors.AsType[*trainer.MissingStateError](err)
				if !ok || !strings.Contains(missing.Error(), tc.refused) {
					t.Errorf("error is %v, want %q", err, tc.refused)
				}
				return
			}
			check(t, errors.Join(errs...))
			for _, want := range tc.says {
				if said := s.warns.String() + s.lines.String(); !strings.Contains(said, want) {
					t.Errorf("%q is not in %s", want, said)
				}
			}
			compareRatesOf(t, filepath.Join(out, "checkpoint-8"), testdata("digits-mlp-w2", "checkpoint-8"))
			opt := must[*pyobj.Dict](t)(openCheckpoint(t, filepath.Join(out, "checkpoint-8")).Optimizer())
			step := floats(t, get(t, get(t, get(t, opt, "state").(*pyobj.Dict), int64(0)).(*pyobj.Dict), "step").(*tensor.Tensor))[0]
			if want := map[bool]float32{true: 4, false: 8}[r.FreshOptimizer]; step != want {
				t.Errorf("the optimizer counts %v steps, want %v", step, want)
			}
		})
	}
}

// compareRatesOf wants equal schedule states and logged learning rates.
func compareRatesOf(t *testing.T, oursDir, theirsDir string) {
	t.Helper()
	ours, theirs := openCheckpoint(t, oursDir), openCheckpoint(t, theirsDir)
	compareValues(t, "scheduler", must[*pyobj.Dict](t)(ours.Scheduler()), must[*pyobj.Dict](t)(theirs.Scheduler()))
	got, want := must[*hf.TrainerState](t)(ours.State()).LogHistory(), must[*hf.TrainerState](t)(theirs.State()).LogHistory()
	if len(got) != len(want) {
		t.Fatalf("the log has %d entries, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i]["learning_rate"] != want[i]["learning_rate"] {
			t.Errorf("log entry %d: learning rate %v, want %v", i, got[i]["learning_rate"], want[i]["learning_rate"])
		}
	}
}

// The saved learning rates win over the arguments', which is said; --lr-from
// args turns that round.
func TestWhoseLearningRate(t *testing.T) {
	rate := func(t *testing.T, out string) float64 {
		t.Helper()
		log := must[*hf.TrainerState](t)(openCheckpoint(t, filepath.Join(out, "checkpoint-8")).State()).LogHistory()
		return log[4]["learning_rate"].(float64)
	}
	saved := rate(t, testdata("digits-mlp-w2"))
	for _, tc := range []struct {
		from string
		want float64
		says string
	}{
		{"", saved, "learning_rate has no effect on a resumed run: the optimizer's saved learning rate is used; --lr-from args uses the new one"},
		{"checkpoint", saved, "the arguments' 0.01 is not used (--lr-from args uses it)"},
		{"args", 2 * saved, "the arguments' 0.01 scaled by the schedule at step 4 (--lr-from args)"},
	} {
		t.Run(tc.from, func(t *testing.T) {
			out := t.TempDir()
			r := digitsRun(testdata("digits-mlp-w2", "checkpoint-4"), out)
			r.LRFrom, r.Set = tc.from, []string{"learning_rate=0.01"} // the run's was 0.005
			s := trainRanks(t, r)
			if said := s.warns.String() + s.lines.String(); !strings.Contains(said, tc.says) {
				t.Errorf("%q is not in %s", tc.says, said)
			}
			if got := rate(t, out); got != tc.want {
				t.Errorf("learning rate of step 5 is %v, want %v", got, tc.want)
			}
		})
	}
	r := digitsRun(testdata("digits-mlp-w2", "checkpoint-4"), t.TempDir())
	r.LRFrom = "gpu"
	if _, _, err := trainer.Resolve(r); err == nil || !strings.Contains(err.Error(), `--lr-from: found "gpu", expected checkpoint`) {
		t.Errorf("--lr-from gpu: %v", err)
	}
}

// A file whose groups are divided otherwise resumes, which is said, and ends where
// the Trainer's did; its grouping is in what is written (D12, facebookresearch/suncet#36).
func TestResumeOfRegroupedOptimizer(t *testing.T) {
	dir := regrouped(t, func(groups *pyobj.List) {
		groups.Items[0], groups.Items[1] = groups.Items[1], groups.Items[0]
	})
	out := t.TempDir()
	s := trainRanks(t, digitsRun(dir, out))
	if want := "they are matched by shape"; !strings.Contains(s.lines.String(), want) {
		t.Errorf("%q is not in %s", want, s.lines.String())
	}
	ours := must[*tensor.StateDict](t)(openCheckpoint(t, filepath.Join(out, "checkpoint-14")).Weights())
	theirs := must[*tensor.StateDict](t)(openCheckpoint(t, testdata("digits-mlp-w2", "checkpoint-14")).Weights())
	for _, name := range theirs.Names() {
		a, _ := ours.Get(name)
		b, _ := theirs.Get(name)
		compareTensors(t, name, a, b, 1e-6)
	}
}

// The file has one flat group, in an order of its own, where the run has two: each
// parameter's moments are its own, as they are after the next update, and the
// group stays one (D12, facebookresearch/suncet#36).
func TestResumeOfAFlatOptimizer(t *testing.T) {
	dir := regrouped(t, func(groups *pyobj.List) {
		first := groups.Items[0].(*pyobj.Dict)
		numbers := get(t, first, "params").(*pyobj.List)
		other := get(t, groups.Items[1].(*pyobj.Dict), "params").(*pyobj.List)
		numbers.Items = append(slices.Clone(other.Items), numbers.Items...)
		groups.Items = groups.Items[:1]
	})
	rewrite(t, dir, "scheduler.pt", func(scheduler *pyobj.Dict) { // a flat run's has one rate
		for _, e := range scheduler.Entries() {
			if list, ok := e.Value.(*pyobj.List); ok {
				list.Items = list.Items[:1]
			}
		}
	})
	moments := map[string]map[string][]byte{}
	for name, from := range map[string]string{"two groups": testdata("digits-mlp-w2", "checkpoint-4"), "flat": dir} {
		r := digitsRun(from, t.TempDir())
		r.Set = []string{"max_steps=5", "save_steps=1"}
		trainRanks(t, r)
		opt := must[*pyobj.Dict](t)(openCheckpoint(t, filepath.Join(r.OutputDir, "checkpoint-5")).Optimizer())
		if n := len(get(t, opt, "param_groups").(*pyobj.List).Items); (n == 1) != (name == "flat") {
			t.Errorf("%s: %d groups are written", name, n)
		}
		moments[name] = map[string][]byte{}
		for _, e := range get(t, opt, "state").(*pyobj.Dict).Entries() {
			for _, key := range []string{"exp_avg", "exp_avg_sq"} {
				m := get(t, e.Value.(*pyobj.Dict), key).(*tensor.Tensor)
				moments[name][fmt.Sprint(key, m.Shape)] = must[[]byte](t)(m.Bytes()) // no two have one shape
			}
		}
	}
	if n := len(moments["flat"]); n != 8 || !maps.EqualFunc(moments["flat"], moments["two groups"], slices.Equal) {
		t.Errorf("%d moments differ from those of a run with two groups", n)
	}
}

// regrouped is a copy of digits-mlp-w2's checkpoint-4 with other parameter groups.
func regrouped(t *testing.T, change func(groups *pyobj.List)) string {
	t.Helper()
	dir := copyDir(t, testdata("digits-mlp-w2", "checkpoint-4"))
	rewrite(t, dir, "optimizer.pt", func(opt *pyobj.Dict) { change(get(t, opt, "param_groups").(*pyobj.List)) })
	return dir
}

// rewrite changes the dict that a file of torch.save holds.
func rewrite(t *testing.T, dir, name string, change func(*pyobj.Dict)) {
	t.Helper()
	f := must[*torchfile.File](t)(torchfile.Open(filepath.Join(dir, name), torchfile.Options{}))
	defer f.Close()
	value := f.Object().(*pyobj.Dict)
	change(value)
	path := filepath.Join(t.TempDir(), name)
	file := must[*os.File](t)(os.Create(path))
	check(t, torchfile.Write(file, strings.TrimSuffix(name, ".pt"), value))
	check(t, file.Close())
	check(t, os.Rename(path, filepath.Join(dir, name)))
}
