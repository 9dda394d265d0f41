package trainer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt/hf"
	"rejoin/optim"
	"rejoin/pyobj"
	"rejoin/trainer"
)

// torchSchedules are arguments of torch's classes over nine updates in epochs of
// four, and the learning rates of those updates; nil where they depend on losses.
var torchSchedules = map[string]struct {
	set   []string
	rates []float64
}{
	"step": {
		[]string{"lr_scheduler_type=step", "lr_scheduler_kwargs={step_size: 3, gamma: 0.1}"},
		[]float64{0.5, 0.5, 0.5, 0.05, 0.05, 0.05, 0.005000000000000001, 0.005000000000000001, 0.005000000000000001},
	},
	"step, by epochs": {
		[]string{"lr_scheduler_type=step", "lr_scheduler_kwargs={step_size: 1, gamma: 0.5}", "lr_scheduler_interval=epoch"},
		[]float64{0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125},
	},
	"multistep": {
		[]string{"lr_scheduler_type=multistep", "lr_scheduler_kwargs={milestones: [5, 8, 8], gamma: 0.5}"},
		[]float64{0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.0625},
	},
	"cosine annealing": {
		[]string{"lr_scheduler_type=cosine_annealing", "lr_scheduler_kwargs={T_max: 3, eta_min: 1e-3}"},
		// torch 2.14: CosineAnnealingLR(SGD([p], lr=0.5), 3, 1e-3)
		[]float64{0.5, 0.37525, 0.12575000000000003, 0.001, 0.12574999999999997, 0.37525000000000025, 0.5000000000000003, 0.37525000000000036, 0.12575000000000028},
	},
	"plateau, by steps": {
		[]string{
			"lr_scheduler_type=reduce_lr_on_plateau", "lr_scheduler_kwargs={factor: 0.5, patience: 1, cooldown: 1, threshold: 0.3, threshold_mode: abs, min_lr: 0.1}",
			"eval_strategy=steps", "eval_steps=1",
		}, nil,
	},
	"plateau, by epochs": { // of which some checkpoints are saved before the evaluation
		[]string{"lr_scheduler_type=reduce_lr_on_plateau", "lr_scheduler_kwargs={factor: 0.1, patience: 0, threshold: 10, threshold_mode: abs}", "eval_strategy=epoch"}, nil,
	},
}

func torchRun(out string, set []string) *trainer.Request {
	return &trainer.Request{
		Data: testdata("digits.jsonl"), Model: testdata("digits-small.yaml"), OutputDir: out, WorldSize: 2,
		Set:      append([]string{"per_device_train_batch_size=14", "gradient_accumulation_steps=3", "max_steps=9", "save_steps=1", "logging_steps=1", "learning_rate=0.5", "optim=sgd"}, set...),
		EvalData: map[bool]string{true: testdata("digits-eval.jsonl")}[strings.Contains(strings.Join(set, " "), "eval_strategy")],
	}
}

// loggedRates are the learning rates of a checkpoint's log.
func loggedRates(t *testing.T, dir string) (rates []float64) {
	t.Helper()
	for _, entry := range must[*hf.TrainerState](t)(openCheckpoint(t, dir).State()).LogHistory() {
		if lr, ok := entry["learning_rate"].(float64); ok {
			rates = append(rates, lr)
		}
	}
	return rates
}

// Nine updates straight against k, a resume, and the other nine less k, for every
// k: every file of every later checkpoint, and the learning rate of every update
// to the bit, also where the run is cut just at a drop (D14,
// pytorch-lightning#1772).
func TestTorchSchedulesResumedAtEveryStep(t *testing.T) {
	const last = 9
	for name, tc := range torchSchedules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			straight := t.TempDir()
			trainRanks(t, torchRun(straight, tc.set))
			want := tc.rates
			if want == nil {
				want = plateauRates(t, filepath.Join(straight, checkpointDir(last)), name == "plateau, by steps")
			}
			if got := loggedRates(t, filepath.Join(straight, checkpointDir(last))); !slices.Equal(got, want) {
				t.Fatalf("learning rates are\n%v, want\n%v", got, want)
			}
			for k := 1; k < last; k++ {
				// In place, as the best checkpoint's path is in the state: a checkpoint
				// that is there is compared file by file, and another would be refused.
				s := trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(straight, checkpointDir(k)), WorldSize: 2})
				if s.warns.Len() != 0 {
					t.Errorf("from %d: %s", k, s.warns.String())
				}
				if got := strings.Count(s.lines.String(), "identical to the one already there"); got != last-k {
					t.Fatalf("from %d: %d checkpoints are identical, want %d:\n%s", k, got, last-k, s.lines.String())
				}
			}
			_, hasArgs := files(t, filepath.Join(straight, checkpointDir(last)))[hf.TrainingArgsFile]
			if trainers := strings.HasPrefix(name, "plateau"); hasArgs != trainers {
				t.Errorf("training_args.bin is there: %v; the Trainer has this schedule: %v", hasArgs, trainers)
			}
		})
	}
}

// plateauRates follows the log's losses by hand: those of torch's
// ReduceLROnPlateau under the two sets of arguments in torchSchedules.
func plateauRates(t *testing.T, dir string, bySteps bool) (rates []float64) {
	t.Helper()
	rate, factor, threshold, patience, minLR := 0.5, 0.1, 10.0, 0, 0.0
	if bySteps {
		factor, threshold, patience, minLR = 0.5, 0.3, 1, 0.1
	}
	best, bad, cooldown, drops := 1e9, 0, 0, 0
	for _, entry := range must[*hf.TrainerState](t)(openCheckpoint(t, dir).State()).LogHistory() {
		if _, ok := entry["learning_rate"]; ok {
			rates = append(rates, rate)
		}
		loss, ok := entry["eval_loss"].(float64)
		switch {
		case !ok:
			continue
		case loss < best-threshold:
			best, bad = loss, 0
		default:
			bad++
		}
		if cooldown > 0 {
			cooldown, bad = cooldown-1, 0
		}
		if bad > patience {
			rate, bad, drops = max(rate*factor, minLR), 0, drops+1
			if bySteps {
				cooldown = 1
			}
		}
	}
	if drops == 0 {
		t.Errorf("the learning rate was never lowered: %v", rates)
	}
	return rates
}

// resumeAtFive resumes a torchRun at its step 5 as change says, and returns what
// was said.
func resumeAtFive(t *testing.T, set []string, change func(*trainer.Request)) (out string, said string, err error) {
	t.Helper()
	straight, out := t.TempDir(), t.TempDir()
	trainRanks(t, torchRun(straight, append(set, "max_steps=5", "save_steps=5")))
	r := &trainer.Request{Checkpoint: filepath.Join(straight, checkpointDir(5)), OutputDir: out, WorldSize: 2, Set: []string{"max_steps=9"}}
	change(r)
	s, errs := tryRanks(t, r)
	return out, s.warns.String() + s.lines.String(), errors.Join(errs...)
}

func TestTorchSchedulesFlags(t *testing.T) {
	step, plateau := torchSchedules["step"].set, torchSchedules["plateau, by steps"].set
	annealing := torchSchedules["cosine annealing"]
	constant := []string{"lr_scheduler_type=constant"}
	fresh := func(set ...string) func(*trainer.Request) {
		return func(r *trainer.Request) { r.FreshScheduler, r.Set = true, append(r.Set, set...) }
	}
	with := func(set ...string) func(*trainer.Request) {
		return func(r *trainer.Request) { r.Set = append(r.Set, set...) }
	}
	for _, tc := range []struct {
		name   string
		set    []string
		change func(*trainer.Request)
		says   string // refused with it where rates is nil
		rates  []float64
	}{
		{"sought", step, fresh(), "--fresh-scheduler: the learning rate is the one", torchSchedules["step"].rates[5:]},
		{"chained, sought", annealing.set, fresh(), "--fresh-scheduler", annealing.rates[5:]},
		{"by epochs, sought", torchSchedules["step, by epochs"].set, fresh(), "--fresh-scheduler", torchSchedules["step, by epochs"].rates[5:]},
		{"others anew", step, fresh("lr_scheduler_kwargs={step_size: 4, gamma: 0.5}"), "--fresh-scheduler", []float64{0.25, 0.25, 0.25, 0.125}},
		{"the file's constants", step, with("lr_scheduler_kwargs={step_size: 4}"), "lr_scheduler_kwargs has no effect on a resumed run", torchSchedules["step"].rates[5:]},
		{"the arguments' rate", step, func(r *trainer.Request) { r.LRFrom, r.Set = "args", append(r.Set, "learning_rate=1") }, "--lr-from args", []float64{0.1, 0.010000000000000002, 0.010000000000000002, 0.010000000000000002}},
		{"a plateau anew", plateau, fresh("lr_scheduler_kwargs={patience: 100}"), "reduce_lr_on_plateau begins anew, with no best loss and no bad evaluations counted; the learning rate stays", []float64{0.25, 0.25, 0.25, 0.25}},
		{"a plateau anew at the arguments' rate", plateau, func(r *trainer.Request) {
			fresh("lr_scheduler_kwargs={patience: 100}", "learning_rate=0.3")(r)
			r.LRFrom = "args"
		}, "--lr-from args", []float64{0.3, 0.3, 0.3, 0.3}},
		{"a plateau at the arguments' rate", plateau, func(r *trainer.Request) { r.LRFrom = "args" }, "--lr-from args: the learning rate under reduce_lr_on_plateau is what its reductions have left", nil},
		{"another class", step, with("lr_scheduler_type=multistep", "lr_scheduler_kwargs={milestones: [3]}"), "scheduler.pt holds the state of a StepLR, but lr_scheduler_type multistep is torch's MultiStepLR; --set lr_scheduler_type=step goes on with it, --fresh-scheduler begins the schedule anew", nil},
		{"a LambdaLR's name", step, with("lr_scheduler_type=cosine"), "holds the state of a StepLR, but lr_scheduler_type cosine is torch's LambdaLR", nil},
		{"a LambdaLR's state", constant, with("lr_scheduler_type=step", "lr_scheduler_kwargs={step_size: 2}"), "holds the state of a LambdaLR, but lr_scheduler_type step is torch's StepLR; --set lr_scheduler_type with the run's own schedule", nil},
		{"another class, anew", constant, fresh("lr_scheduler_type=step", "lr_scheduler_kwargs={step_size: 6}"), "--fresh-scheduler", []float64{0.5, 0.05, 0.05, 0.05}},
		{"a plateau of mode max", plateau, fresh("lr_scheduler_kwargs={mode: max, patience: 100}"), "reduce_lr_on_plateau has mode max: it lowers the learning rate while the loss does not grow", []float64{0.25, 0.25, 0.25, 0.25}},
		{"warm-up", step, with("warmup_steps=3"), "warmup_steps has no effect: lr_scheduler_type step, torch's StepLR, has no warm-up", torchSchedules["step"].rates[5:]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out, said, err := resumeAtFive(t, tc.set, tc.change)
			if tc.rates == nil {
				if request := (*trainer.RequestError)(nil); !errors.As(err, &request) || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error is %v, want %q in a *RequestError", err, tc.says)
				}
				return
			}
			check(t, err)
			if !strings.Contains(said, tc.says) {
				t.Errorf("%q is not in %s", tc.says, said)
			}
			if got := loggedRates(t, filepath.Join(out, checkpointDir(9)))[5:]; !slices.Equal(got, tc.rates) {
				t.Errorf("learning rates are %v, want %v", got, tc.rates)
			}
		})
	}
}

// With another number of rows in an update a schedule of torch's goes on from its
// own count: a rate that was lowered is not raised again.
func TestTorchSchedulesRecounted(t *testing.T) {
	straight, out := t.TempDir(), t.TempDir()
	trainRanks(t, torchRun(straight, torchSchedules["step"].set))
	s := trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(straight, checkpointDir(4)), OutputDir: out, WorldSize: 2, Set: []string{"per_device_train_batch_size=28"}})
	if want := "the step schedule goes on counting, new updates from now on"; !strings.Contains(s.warns.String(), want) {
		t.Errorf("%q is not in %s", want, s.warns.String())
	}
	entries := must[[]os.DirEntry](t)(os.ReadDir(out))
	rates := loggedRates(t, filepath.Join(out, entries[len(entries)-1].Name()))[4:]
	if len(rates) < 3 || rates[0] != 0.05 || rates[1] != 0.05 || rates[2] != 0.005000000000000001 {
		t.Errorf("learning rates are %v, want 0.05 twice, then 0.005", rates)
	}
}

func TestSchedulerArgumentsRefused(t *testing.T) {
	for _, tc := range []struct {
		set  []string
		want string
	}{
		{[]string{"lr_scheduler_type=stairs"}, "lr_scheduler_type: found stairs, expected one of [constant"},
		{[]string{"lr_scheduler_type=step"}, "lr_scheduler_kwargs: found map[], expected the arguments of lr_scheduler_type step: StepLR: argument step_size is missing"},
		{[]string{"lr_scheduler_type=step", "lr_scheduler_kwargs={step_size: 2.5}"}, "StepLR: step_size: expected a whole number, 0 or more, found 2.5"},
		{[]string{"lr_scheduler_type=step", "lr_scheduler_kwargs={step_size: 2, T_max: 3}"}, "StepLR: it does not take the arguments [T_max]"},
		{[]string{"lr_scheduler_type=multistep", "lr_scheduler_kwargs={milestones: 5}"}, "MultiStepLR: milestones: expected a list, found 5"},
		{[]string{"lr_scheduler_type=cosine_annealing", "lr_scheduler_kwargs={T_max: 0}"}, "T_max is 0, expected 1 or more"},
		{[]string{"lr_scheduler_type=reduce_lr_on_plateau"}, "lr_scheduler_type: found reduce_lr_on_plateau, expected an eval_strategy of steps or epoch with it"},
		{[]string{"lr_scheduler_type=reduce_lr_on_plateau", "eval_strategy=epoch", "lr_scheduler_kwargs={factor: 1}"}, "ReduceLROnPlateau: factor is 1"},
		{[]string{"lr_scheduler_type=reduce_lr_on_plateau", "eval_strategy=epoch", "lr_scheduler_interval=epoch"}, "reduce_lr_on_plateau is stepped after each evaluation"},
		{[]string{"lr_scheduler_interval=epoch"}, "lr_scheduler_interval: found epoch, expected update: lr_scheduler_type linear counts updates"},
		{[]string{"lr_scheduler_interval=step"}, "lr_scheduler_interval: found step, expected update or epoch"},
	} {
		_, _, err := trainer.Resolve(torchRun(t.TempDir(), tc.set))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error is %v, want %q in it", tc.set, err, tc.want)
		}
	}
}

// A Trainer whose caller gave it a StepLR wrote training_args.bin as ever: the
// state is refused under its linear, and gone on with under its own name, with
// the constants that it holds.
func TestTrainersCheckpointWithAStepLR(t *testing.T) {
	dir := copyDir(t, testdata("digits-mlp-w2", "checkpoint-4"))
	state := pyobj.NewDict(
		"step_size", int64(6), "gamma", 0.5, "base_lrs", &pyobj.List{Items: []any{0.005, 0.005}}, "last_epoch", int64(4), "_step_count", int64(5),
		"_is_initial", false, "_get_lr_called_within_step", false, "_last_lr", &pyobj.List{Items: []any{0.005, 0.005}},
	)
	check(t, os.Rename(writeTorch(t, state), filepath.Join(dir, "scheduler.pt")))
	_, errs := tryRanks(t, digitsRun(dir, t.TempDir()))
	found, ok := errors.AsType[*trainer.SchedulerClassError](errors.Join(errs...))
	if !ok || found.Found != optim.StepLR || found.Expected != optim.LambdaLR {
		t.Fatalf("error is %v", errors.Join(errs...))
	}
	r := digitsRun(dir, t.TempDir())
	r.Set = []string{"lr_scheduler_type=step", "warmup_steps=0"}
	trainRanks(t, r)
	scheduler := must[*pyobj.Dict](t)(openCheckpoint(t, filepath.Join(r.OutputDir, "checkpoint-8")).Scheduler())
	if got := fmt.Sprint(get(t, scheduler, "step_size"), get(t, scheduler, "gamma"), get(t, scheduler, "last_epoch")); got != "6 0.5 8" {
		t.Errorf("the schedule went on to %s", got)
	}
	rates := loggedRates(t, filepath.Join(r.OutputDir, "checkpoint-8"))[4:]
	if want := []float64{rates[0], rates[0], rates[0] * 0.5, rates[0] * 0.5}; !slices.Equal(rates, want) {
		t.Errorf("learning rates are %v, want %v", rates, want)
	}
}

// The ranks' copy of the arguments is JSON, in which Go makes a float of every
// number and an int of 2.0.
func TestKeywordArgumentsSurviveTheJob(t *testing.T) {
	for _, want := range []trainer.KeywordArguments{nil, {"patience": int64(2), "factor": 1.0, "threshold": 1e-5, "mode": "min", "milestones": []any{int64(1), 2.5}, "min_lr": nil}} {
		job := trainer.Job{Arguments: trainer.DefaultArguments()}
		job.Arguments.LRSchedulerKwargs = want
		got := must[*trainer.Job](t)(trainer.DecodeJob(must[[]byte](t)(job.Encode())))
		if !reflect.DeepEqual(got.Arguments.LRSchedulerKwargs, want) {
			t.Errorf("%#v became %#v", want, got.Arguments.LRSchedulerKwargs)
		}
	}
	var k trainer.KeywordArguments
	if err := k.UnmarshalJSON([]byte("[1]")); err == nil {
		t.Errorf("a list became %v", k)
	}
}
