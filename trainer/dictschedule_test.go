package trainer_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/pyobj"
	"rejoin/trainer"
)

// schedulerState is a state dict of one of torch's scheduler classes at count: its
// own entries, and those that all but the plateau have.
func schedulerState(count int64, own ...any) *pyobj.Dict {
	d := pyobj.NewDict(own...)
	rates := func() *pyobj.List { return &pyobj.List{Items: []any{0.004}} }
	for _, e := range pyobj.NewDict("base_lrs", rates(), "last_epoch", count, "_step_count", count+1, "_get_lr_called_within_step", false, "_last_lr", rates()).Entries() {
		d.Set(e.Key, e.Value)
	}
	return d
}

// plateauState is what torch 1.13 writes of a ReduceLROnPlateau.
func plateauState(count int64, mode string, best float64) *pyobj.Dict {
	return pyobj.NewDict(
		"factor", 0.5, "min_lrs", &pyobj.List{Items: []any{int64(0)}}, "patience", int64(0), "verbose", false, "cooldown", int64(0), "cooldown_counter", int64(0),
		"mode", mode, "threshold", 1e-4, "threshold_mode", "rel", "best", best, "num_bad_epochs", int64(0), "mode_worse", 0.0, "eps", 1e-8,
		"last_epoch", count, "_last_lr", &pyobj.List{Items: []any{0.004}},
	)
}

// runs of equal rates: 3 × 0.1 and 2 × 0.05 are {0.1, 3}, {0.05, 2}.
type stretch struct {
	rate  float64
	steps int
}

func stretches(rates []float64) (out []stretch) {
	for _, rate := range rates {
		if n := len(out); n > 0 && out[n-1].rate == rate {
			out[n-1].steps++
		} else {
			out = append(out, stretch{rate, 1})
		}
	}
	return out
}

// raw-ddp-w2's dict was saved after epoch 1 of 4, update 20 of 40. With the state
// of a scheduler beside it, the learning rates of the last 20 updates follow.
func TestScriptsDictWithAScheduler(t *testing.T) {
	stepped := func(count, size int64) *pyobj.Dict {
		return schedulerState(count, "step_size", size, "gamma", 0.5)
	}
	with := func(key string, state *pyobj.Dict) func(*testing.T, *pyobj.Dict) {
		return func(_ *testing.T, d *pyobj.Dict) { d.Set(key, state) }
	}
	evaluating := func(r *trainer.Request) { r.EvalData = testdata("digits-eval.jsonl") }
	set := func(set ...string) func(*trainer.Request) {
		return func(r *trainer.Request) { r.Set = append(r.Set, set...) }
	}
	counter := &pyobj.Dict{Kind: pyobj.Counter}
	counter.Set(int64(3), int64(2))
	for _, tc := range []struct {
		name   string
		change func(*testing.T, *pyobj.Dict)
		set    func(*trainer.Request)
		says   string // the refusal where want is nil
		want   []stretch
	}{
		{"StepLR by epochs", with("scheduler", stepped(2, 3)), nil, "a schedule's state", []stretch{{0.004, 10}, {0.002, 10}}},
		{"MultiStepLR by epochs", with("scheduler_state_dict", schedulerState(2, "milestones", counter, "gamma", 0.5)), nil, "", []stretch{{0.004, 10}, {0.001, 10}}},
		{"StepLR by updates", with("lr_scheduler", stepped(20, 25)), nil, "", []stretch{{0.004, 5}, {0.002, 15}}},
		// D14, pytorch-lightning#1772: a schedule saved before it advanced.
		{"saved before its step", with("scheduler", stepped(1, 2)), nil, "saved before its StepLR was stepped for the last time, at 1 of 2; it is stepped now", []stretch{{0.002, 20}}},
		{"saved before its step of updates", with("scheduler", stepped(19, 20)), nil, "at 19 of 20; it is stepped now", []stretch{{0.002, 20}}},
		{"a count that tells nothing", with("scheduler", stepped(7, 25)), nil, "--set lr_scheduler_interval=epoch, or update", nil},
		{"a count that tells nothing, said", with("scheduler", stepped(7, 25)), set("lr_scheduler_interval=update"), "its StepLR has counted 7, but 20 would be expected here", []stretch{{0.004, 18}, {0.002, 2}}},
		{"the flag wins", with("scheduler", stepped(2, 5)), set("lr_scheduler_interval=update"), "its StepLR has counted 2, but 20", []stretch{{0.004, 3}, {0.002, 5}, {0.001, 5}, {0.0005, 5}, {0.00025, 2}}},
		{"sought", with("scheduler", stepped(2, 3)), func(r *trainer.Request) {
			r.FreshScheduler = true
			set("lr_scheduler_type=step", "lr_scheduler_kwargs={step_size: 15, gamma: 0.5}")(r)
		}, "--fresh-scheduler", []stretch{{0.002, 10}, {0.001, 10}}},
		{"other constants", with("scheduler", stepped(2, 3)), set("lr_scheduler_kwargs={step_size: 1}"), "lr_scheduler_kwargs has no effect", []stretch{{0.004, 10}, {0.002, 10}}},
		{"another class", with("scheduler", stepped(2, 3)), set("lr_scheduler_type=cosine_annealing"), "holds the state of a StepLR, but lr_scheduler_type cosine_annealing is torch's CosineAnnealingLR", nil},
		{"no constants", with("scheduler", schedulerState(2, "T_max", int64(4))), nil, "eta_min of its CosineAnnealingLR is missing", nil},
		{"no such class", with("scheduler", schedulerState(2, "gamma", 0.5)), nil, `the state of a LambdaLR, StepLR, MultiStepLR, CosineAnnealingLR or ReduceLROnPlateau, which are those that Rejoin has (its own has "gamma"`, nil},
		{"a broken state", with("scheduler", schedulerState(2, "step_size", "x", "gamma", 0.5)), nil, "its scheduler: step_size: expected an int, found str", nil},
		{"LambdaLR", with("scheduler", schedulerState(20, "lr_lambdas", &pyobj.List{Items: []any{nil}})), nil, "--set lr_scheduler_type=linear", nil},
		{"LambdaLR, said", with("scheduler", schedulerState(20, "lr_lambdas", &pyobj.List{Items: []any{nil}})), set("lr_scheduler_type=constant"), "", []stretch{{0.004, 20}}},
		{"LambdaLR by epochs", with("scheduler", schedulerState(2, "lr_lambdas", &pyobj.List{Items: []any{nil}})), set("lr_scheduler_type=linear"), "lr_scheduler_type linear counts updates", nil},
		{"scheduler not saved", hideSchedule, nil, "its learning rate was 0.008 and is 0.004, and it did not save its scheduler", nil},
		{"scheduler not saved, said", hideSchedule, set("lr_scheduler_type=step", "lr_scheduler_interval=epoch", "lr_scheduler_kwargs={step_size: 1, gamma: 0.5}"), "", []stretch{{0.002, 10}, {0.001, 10}}},
		{"plateau", with("scheduler", plateauState(2, "min", 9)), nil, "--eval-data FILE", nil},
		{"plateau, evaluating", with("scheduler", plateauState(2, "min", 0.1)), evaluating, "reduce_lr_on_plateau: learning rate 0.004 → 0.002", []stretch{{0.004, 10}, {0.002, 10}}},
		{"plateau that improves", with("scheduler", plateauState(2, "min", 90)), evaluating, "", []stretch{{0.004, 20}}},
		{"plateau, saved before its step", with("scheduler", plateauState(1, "min", 0.1)), evaluating, "was stepped for the last time, at 1 of 2; an evaluation steps it now", []stretch{{0.002, 10}, {0.001, 10}}},
		{"plateau by steps", with("scheduler", plateauState(8, "min", 9)), evaluating, "--set eval_strategy=epoch, or steps", nil},
		{"plateau by steps, said", with("scheduler", plateauState(8, "min", 0.1)), func(r *trainer.Request) {
			evaluating(r)
			set("eval_strategy=steps", "eval_steps=5")(r)
		}, "", []stretch{{0.004, 5}, {0.002, 5}, {0.001, 5}, {0.0005, 5}}},
		{"plateau of an accuracy", with("scheduler", plateauState(2, "max", 0.1)), evaluating, "its ReduceLROnPlateau has mode max", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d, _ := readScript(t, testdata("raw-ddp-w2", "checkpoint_epoch_1.pth"))
			tc.change(t, d)
			r := scriptRun(writeTorch(t, d), t.TempDir())
			if tc.set != nil {
				tc.set(r)
			}
			s, errs := tryRanks(t, r)
			err := errors.Join(errs...)
			if tc.want == nil {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error is %v, want %q in it", err, tc.says)
				}
				return
			}
			check(t, err)
			if said := s.warns.String() + s.lines.String(); !strings.Contains(said, tc.says) {
				t.Errorf("%q is not in %s", tc.says, said)
			}
			if got := stretches(loggedRates(t, filepath.Join(r.OutputDir, checkpointDir(40)))); !slices.Equal(got, tc.want) {
				t.Errorf("learning rates are %v, want %v", got, tc.want)
			}
			sameEndAgain(t, r)
		})
	}
}

// sameEndAgain resumes what the run wrote after epoch 2, the dict and the
// directory, and wants the run's own end.
func sameEndAgain(t *testing.T, r *trainer.Request) {
	t.Helper()
	want := files(t, filepath.Join(r.OutputDir, checkpointDir(40)))
	for _, from := range []string{"checkpoint-30", "checkpoint-30.pth"} {
		again := *r
		again.Checkpoint, again.OutputDir, again.FreshScheduler = filepath.Join(r.OutputDir, from), t.TempDir(), r.FreshScheduler && strings.HasSuffix(from, ".pth")
		if from == "checkpoint-30" {
			again.Set, again.EvalData = nil, ""
		}
		s := trainRanks(t, &again)
		got := files(t, filepath.Join(again.OutputDir, checkpointDir(40)))
		for _, name := range []string{"model.safetensors", "optimizer.pt", "scheduler.pt"} {
			if got[name] == "" || got[name] != want[name] {
				t.Errorf("from %s: %s differs\n%s%s", from, name, s.warns.String(), s.lines.String())
			}
		}
	}
}

// hideSchedule leaves of a scheduler only what it noted in the optimizer's group.
func hideSchedule(t *testing.T, d *pyobj.Dict) {
	t.Helper()
	get(t, get(t, d, "optimizer_state_dict").(*pyobj.Dict), "param_groups").(*pyobj.List).Items[0].(*pyobj.Dict).Set("initial_lr", 0.008)
}

// PyTorch's ImageNet script: SGD, which counts no steps, a StepLR by epochs, and
// under "epoch" the number of epochs done; the tutorial's saves the epoch just
// done. The scheduler's count tells them apart.
func TestSGDsDictIsPlacedByItsScheduler(t *testing.T) {
	for _, tc := range []struct {
		epoch int64
		says  string
	}{
		{2, "saved after 2 epochs, update 20, as its scheduler counts: training goes on at the start of epoch 2, counted from 0"},
		{1, "saved after epoch 1, update 20, as its scheduler counts: training goes on at the start of epoch 2"},
	} {
		d, _ := readScript(t, testdata("raw-ddp-w2", "checkpoint_epoch_1.pth"))
		d.Set("epoch", tc.epoch)
		d.Set("scheduler", schedulerState(2, "step_size", int64(3), "gamma", 0.5))
		d.Set("optimizer_state_dict", pyobj.NewDict("state", pyobj.NewDict(), "param_groups", &pyobj.List{Items: []any{pyobj.NewDict(
			"lr", 0.004, "momentum", int64(0), "dampening", int64(0), "weight_decay", int64(0), "nesterov", false, "initial_lr", 0.004,
			"params", &pyobj.List{Items: []any{int64(0), int64(1), int64(2), int64(3)}},
		)}}))
		r := scriptRun(writeTorch(t, d), t.TempDir())
		s := trainRanks(t, r)
		if !strings.Contains(s.lines.String(), tc.says) || strings.Contains(s.warns.String(), "StepLR") {
			t.Errorf("%q is not in %s%s", tc.says, s.warns.String(), s.lines.String())
		}
		if got, want := stretches(loggedRates(t, filepath.Join(r.OutputDir, checkpointDir(40)))), []stretch{{0.004, 10}, {0.002, 10}}; !slices.Equal(got, want) {
			t.Errorf("learning rates are %v, want %v", got, want)
		}
	}
}
