package trainer_test

import (
	"bytes"
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
	"rejoin/ckpt/hf"
	"rejoin/pyobj"
	"rejoin/tensor"
	"rejoin/trainer"
)

// evalRun is an uninterrupted run of the real Trainer that evaluates.
type evalRun struct {
	trainerRun
	evalData string
	final    int // the checkpoint whose weights the Trainer held at the end
}

var evalRuns = []evalRun{
	{trainerRun{"eval-steps-w2", "digits.jsonl", "digits-small.yaml", "eval-steps-train.yaml", 2, []int{10, 16, 22}}, "digits-eval.jsonl", 16},
	{trainerRun{"eval-epoch-w2", "regression.jsonl", "regression.yaml", "eval-epoch-train.yaml", 2, []int{10, 20, 25}}, "regression-eval.jsonl", 25},
	// The rate drops at 10 and at 20; at 8 a bad evaluation is counted.
	{trainerRun{"plateau-w2", "digits.jsonl", "digits-small.yaml", "plateau-train.yaml", 2, []int{8, 10, 18, 20, 24}}, "digits-eval.jsonl", 24},
}

func (e evalRun) request(out string) *trainer.Request {
	return &trainer.Request{
		Data: testdata(e.data), EvalData: testdata(e.evalData), Model: testdata(e.model), OutputDir: out, WorldSize: e.worldSize,
	}
}

// compareEvalCheckpoints is compareCheckpoints for runs that evaluate: measured
// times are not in our log, and the best checkpoint's path is in our directory.
func compareEvalCheckpoints(t *testing.T, oursDir, theirsDir string) {
	t.Helper()
	ours, theirs := openCheckpoint(t, oursDir), openCheckpoint(t, theirsDir)
	what := filepath.Base(oursDir)
	w, want := must[*tensor.StateDict](t)(ours.Weights()), must[*tensor.StateDict](t)(theirs.Weights())
	for _, name := range want.Names() {
		a, _ := w.Get(name)
		b, _ := want.Get(name)
		compareTensors(t, what+" "+name, a, b, 1e-6)
	}
	compareOptimizers(t, what, must[*pyobj.Dict](t)(ours.Optimizer()), must[*pyobj.Dict](t)(theirs.Optimizer()))
	compareSchedulers(t, what, must[*pyobj.Dict](t)(ours.Scheduler()), must[*pyobj.Dict](t)(theirs.Scheduler()))
	compareEvalStates(t, what, must[*hf.TrainerState](t)(ours.State()), must[*hf.TrainerState](t)(theirs.State()))
	for rank := range 2 {
		a := must[*hf.RandomState](t)(ours.RandomState(rank, 2))
		b := must[*hf.RandomState](t)(theirs.RandomState(rank, 2))
		if !slices.Equal(a.CPU, b.CPU) {
			t.Errorf("%s: rank %d's random state differs", what, rank)
		}
	}
}

// compareSchedulers wants equal states; a plateau's best is a loss, and near.
func compareSchedulers(t *testing.T, what string, got, want *pyobj.Dict) {
	t.Helper()
	if best, ok := want.Get("best"); ok {
		x, y := get(t, got, "best").(float64), best.(float64)
		if !(math.Abs(x-y) <= 1e-5*math.Abs(y)) {
			t.Errorf("%s: the plateau's best is %v, want %v", what, x, y)
		}
		got.Set("best", best)
	}
	compareValues(t, what+" scheduler", got, want)
}

func compareEvalStates(t *testing.T, what string, got, want *hf.TrainerState) {
	t.Helper()
	near := func(key string, a, b any) {
		x, okX := a.(float64)
		y, okY := b.(float64)
		if !okX || !okY || !(math.Abs(x-y) <= 1e-5*math.Abs(y)) {
			t.Errorf("%s: %s = %v, want %v", what, key, a, b)
		}
	}
	gotLog, wantLog := got.LogHistory(), want.LogHistory()
	if len(gotLog) != len(wantLog) {
		t.Fatalf("%s: the log has %d entries, want %d", what, len(gotLog), len(wantLog))
	}
	for i, w := range wantLog {
		for key, value := range w {
			switch {
			case strings.HasPrefix(key, "eval_") && key != "eval_loss":
				continue // times
			case key == "loss" || key == "grad_norm" || key == "eval_loss":
				near(fmt.Sprintf("entry %d: %s", i, key), gotLog[i][key], value)
			case gotLog[i][key] != value:
				t.Errorf("%s: entry %d: %s = %v, want %v", what, i, key, gotLog[i][key], value)
			}
		}
		for key := range gotLog[i] {
			if _, ok := w[key]; !ok {
				t.Errorf("%s: entry %d has %s, the Trainer's has not", what, i, key)
			}
		}
	}
	if best := want.Get("best_metric"); best != nil || got.Get("best_metric") != nil {
		near("best_metric", got.Get("best_metric"), best)
	}
	g, w := got.Clone(), want.Clone()
	for _, s := range []*hf.TrainerState{g, w} {
		s.Set("log_history", []any{})
		s.Set("best_metric", nil)
		path, _ := s.Get("best_model_checkpoint").(string)
		s.Set("best_model_checkpoint", filepath.Base(path))
	}
	if a, b := must[[]byte](t)(g.Encode()), must[[]byte](t)(w.Encode()); !bytes.Equal(a, b) {
		t.Errorf("%s: trainer_state.json differs\n got %s\nwant %s", what, a, b)
	}
}

// The Trainer's own run: its evaluations, best model and end come out of ours.
func TestEvaluationReproducesTheTrainersRun(t *testing.T) {
	for _, run := range evalRuns {
		t.Run(run.name, func(t *testing.T) {
			out := t.TempDir()
			r := run.request(out)
			r.Init, r.Config = testdata(run.name, "initial_state_dict.pt"), testdata(run.config)
			s := trainRanks(t, r)
			for _, step := range run.steps {
				compareEvalCheckpoints(t, filepath.Join(out, checkpointDir(step)), testdata(run.name, checkpointDir(step)))
			}
			last := run.steps[len(run.steps)-1]
			for _, e := range must[[]os.DirEntry](t)(os.ReadDir(out)) {
				if step, ok := hf.StepOfName(e.Name()); !ok || step > last {
					t.Errorf("the run left %s", e.Name())
				}
			}
			if run.name == "eval-steps-w2" {
				says(t, s, "early stopping: eval_loss did not improve on 2.08082 in 3 evaluations", "best model: "+filepath.Join(out, "checkpoint-16"))
			}
		})
	}
}

// What the Trainer holds at the end is the best checkpoint, which ours equals.
func TestFinalWeightsAreTheBestCheckpoints(t *testing.T) {
	for _, run := range evalRuns {
		final := openStateDict(t, testdata(run.name, "final_state_dict.pt"))
		best := must[*tensor.StateDict](t)(openCheckpoint(t, testdata(run.name, checkpointDir(run.final))).Weights())
		for _, name := range best.Names() {
			a, _ := final.Get(name)
			b, _ := best.Get(name)
			compareTensors(t, run.name+" "+name, a, b, 0)
		}
	}
}

// Resumed from the Trainer's checkpoint, with its arguments and its callback's.
func TestEvaluationResumesFromTheTrainersCheckpoint(t *testing.T) {
	for _, run := range evalRuns {
		for i, from := range run.steps[:len(run.steps)-1] {
			t.Run(fmt.Sprintf("%s from %d", run.name, from), func(t *testing.T) {
				out := t.TempDir()
				r := run.request(out)
				r.Checkpoint = testdata(run.name, checkpointDir(from))
				// The Trainer's checkpoint lacks the losses since the last log
				// entry; its entry after a resume averages fewer steps.
				pending := run.name == "eval-steps-w2" && from%3 != 0
				trainRanks(t, r)
				for _, step := range run.steps[i+1:] {
					if pending {
						dir := filepath.Join(out, checkpointDir(step))
						copyEntryLoss(t, dir, testdata(run.name, checkpointDir(step)), from)
					}
					compareEvalCheckpoints(t, filepath.Join(out, checkpointDir(step)), testdata(run.name, checkpointDir(step)))
				}
			})
		}
	}
}

// copyEntryLoss replaces the loss of the first entry after a resume in our state
// by theirs.
func copyEntryLoss(t *testing.T, oursDir, theirsDir string, from int) {
	t.Helper()
	ours := must[*hf.TrainerState](t)(openCheckpoint(t, oursDir).State())
	theirs := must[*hf.TrainerState](t)(openCheckpoint(t, theirsDir).State())
	log := ours.LogHistory()
	for i, entry := range theirs.LogHistory() {
		if _, ok := entry["loss"]; ok && entry["step"].(int64) > int64(from) {
			log[i]["loss"] = entry["loss"]
			break
		}
	}
	check(t, os.WriteFile(filepath.Join(oursDir, hf.StateFile), must[[]byte](t)(ours.Encode()), 0o666))
}

// A run of ours resumed in place gives the same bytes: the counter of early
// stopping, the best model and the evaluations go on, at every world size.
func TestEvaluatingRunResumedIsTheSameBytes(t *testing.T) {
	sets := map[string][]string{
		"stopping early":            {"early_stopping_patience=2", "early_stopping_threshold=0.05"},
		"as it is":                  nil,
		"by epochs, saved by steps": {"eval_strategy=epoch", "logging_strategy=epoch", "save_strategy=steps", "save_steps=2", "eval_delay=0", "early_stopping_patience=None", "load_best_model_at_end=false"},
	}
	for _, run := range evalRuns {
		for name, set := range sets {
			for _, size := range []int{1, 2} {
				if name == "as it is" && size == 1 {
					continue // what it adds, the others have
				}
				t.Run(fmt.Sprintf("%s %s on %d", run.name, name, size), func(t *testing.T) {
					t.Parallel()
					resumeInPlace(t, run, set, size)
				})
			}
		}
	}
}

// resumeInPlace keeps the uninterrupted run's directory aside and makes the run
// again from each of its checkpoints, under the same path.
func resumeInPlace(t *testing.T, run evalRun, set []string, size int) {
	t.Helper()
	top := t.TempDir()
	out, aside := filepath.Join(top, "out"), filepath.Join(top, "aside")
	r := run.request(out)
	r.Config, r.Set, r.WorldSize = testdata(run.config), append(slices.Clone(set), fmt.Sprintf("max_steps=%d", map[string]int{"eval-steps-w2": 14, "eval-epoch-w2": 24, "plateau-w2": 14}[run.name])), size
	trainRanks(t, r)
	check(t, os.Rename(out, aside))
	entries := must[[]os.DirEntry](t)(os.ReadDir(aside))
	for i, from := range entries {
		if i%2 == 1 && len(entries) > 4 {
			continue // every second one is enough
		}
		fromStep, _ := hf.StepOfName(from.Name())
		check(t, os.RemoveAll(out))
		for _, e := range entries { // the run's directory as it was then
			if step, _ := hf.StepOfName(e.Name()); step <= fromStep {
				check(t, os.CopyFS(filepath.Join(out, e.Name()), os.DirFS(filepath.Join(aside, e.Name()))))
			}
		}
		trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(out, from.Name()), WorldSize: size})
		again := must[[]os.DirEntry](t)(os.ReadDir(out))
		if len(again) != len(entries) {
			t.Errorf("from %s: %d checkpoints, want %d", from.Name(), len(again), len(entries))
		}
		for _, e := range again {
			sameFiles(t, filepath.Join(out, e.Name()), filepath.Join(aside, e.Name()))
		}
	}
}

func says(t *testing.T, s *said, parts ...string) {
	t.Helper()
	all := s.lines.String() + s.warns.String()
	for _, part := range parts {
		if !strings.Contains(all, part) {
			t.Errorf("said\n%s\nwant %q in it", all, part)
		}
	}
}

// The run's directory has moved; a best checkpoint that is gone is forgotten with a
// warning, and the run ends (D22, huggingface/transformers#48315).
func TestBestModelOfAMovedRun(t *testing.T) {
	run := evalRuns[0]
	for name, tc := range map[string]struct {
		remove bool
		says   string
	}{
		"found beside":         {false, "best model: "},
		"gone with its folder": {true, "eval-steps-w2/checkpoint-16, is not there any more"},
	} {
		t.Run(name, func(t *testing.T) {
			moved := filepath.Join(t.TempDir(), "ein Lauf, größer")
			for _, step := range []int{16, 22} {
				check(t, os.CopyFS(filepath.Join(moved, checkpointDir(step)), os.DirFS(testdata(run.name, checkpointDir(step)))))
			}
			if tc.remove {
				check(t, os.RemoveAll(filepath.Join(moved, "checkpoint-16")))
			}
			r := run.request("")
			r.Checkpoint, r.Set = filepath.Join(moved, "checkpoint-22"), []string{"early_stopping_patience=20", "max_steps=24"}
			s := trainRanks(t, r)
			says(t, s, tc.says, "resume: OK")
			state := must[*hf.TrainerState](t)(openCheckpoint(t, filepath.Join(moved, "checkpoint-24")).State())
			want := any(filepath.Join(moved, "checkpoint-16"))
			if tc.remove {
				want = nil
			}
			if got := state.Get("best_model_checkpoint"); got != want {
				t.Errorf("best_model_checkpoint = %v, want %v", got, want)
			}
		})
	}
}

// A best checkpoint that breaks before the end does not undo a run that is done.
func TestBrokenBestCheckpointDoesNotFailTheRun(t *testing.T) {
	run := evalRuns[0]
	moved := t.TempDir()
	for _, step := range []int{16, 22} {
		check(t, os.CopyFS(filepath.Join(moved, checkpointDir(step)), os.DirFS(testdata(run.name, checkpointDir(step)))))
	}
	check(t, os.Truncate(filepath.Join(moved, "checkpoint-16", "model.safetensors"), 100))
	r := run.request("")
	r.Checkpoint = filepath.Join(moved, "checkpoint-22")
	says(t, trainRanks(t, r), "early stopping ended the run at step 22", "the best model is not loaded", "resume: OK")
}

func TestEvaluationIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		set      []string
		evalData string
		says     string
	}{
		"no data":                    {[]string{"eval_strategy=steps"}, "", "--eval-data"},
		"no such data":               {[]string{"eval_strategy=steps"}, "nowhere.jsonl", "nowhere.jsonl"},
		"another model's data":       {[]string{"eval_strategy=steps"}, "digits-eval.jsonl", "10 numbers"},
		"unknown strategy":           {[]string{"eval_strategy=often"}, "", "one of no, steps, epoch"},
		"a metric that is not there": {[]string{"eval_strategy=steps", "metric_for_best_model=accuracy"}, "regression-eval.jsonl", "loss: it is all that is measured"},
		"best without a metric":      {[]string{"save_strategy=best", "eval_strategy=steps"}, "regression-eval.jsonl", "metric_for_best_model"},
		"best, other strategies":     {[]string{"load_best_model_at_end=true", "eval_strategy=epoch"}, "regression-eval.jsonl", "the same strategy as eval_strategy epoch"},
		"best, other steps":          {[]string{"load_best_model_at_end=true", "eval_strategy=steps", "eval_steps=4"}, "regression-eval.jsonl", "a multiple of eval_steps 4"},
		"early stop by nothing":      {[]string{"early_stopping_patience=2"}, "", "an eval_strategy of steps or epoch"},
		"no patience":                {[]string{"early_stopping_patience=0"}, "", "a number above 0"},
		"eval batch of nothing":      {[]string{"eval_strategy=steps", "per_device_eval_batch_size=0"}, "regression-eval.jsonl", "per_device_eval_batch_size"},
	} {
		t.Run(name, func(t *testing.T) {
			r := evalRuns[1].request(filepath.Join(t.TempDir(), "never"))
			r.Config, r.Set, r.EvalData = testdata("regression-train.yaml"), tc.set, ""
			if tc.evalData != "" {
				r.EvalData = testdata(tc.evalData)
			}
			_, errs := tryRanks(t, r)
			if said := reports(errs); len(said) != 1 || !strings.Contains(said[0], tc.says) {
				t.Errorf("said %q, want %q", said, tc.says)
			}
			if _, err := os.Stat(r.OutputDir); err == nil {
				t.Error("something was written")
			}
		})
	}
}

func TestChangedEvaluationDataIsRefused(t *testing.T) {
	run, dir := evalRuns[1], t.TempDir()
	path := filepath.Join(dir, "rows.jsonl")
	rows := must[[]byte](t)(os.ReadFile(testdata(run.evalData)))
	check(t, os.WriteFile(path, rows, 0o666))
	r := run.request(filepath.Join(dir, "out"))
	r.Config, r.EvalData, r.Set = testdata(run.config), path, []string{"save_strategy=epoch"}
	trainRanks(t, r)
	check(t, os.WriteFile(path, rows[bytes.IndexByte(rows, '\n')+1:], 0o666))
	_, errs := tryRanks(t, &trainer.Request{Checkpoint: filepath.Join(dir, "out", "checkpoint-5"), WorldSize: 2})
	var changed *trainer.DataChangedError
	if said := reports(errs); len(said) != 1 || !strings.Contains(said[0], "evaluation data") || len(errs) != 2 || !errors.As(errs[0], &changed) {
		t.Errorf("said %q", said)
	}
}

// openStateDict reads a file of weights.
func openStateDict(t *testing.T, path string) *tensor.StateDict {
	t.Helper()
	opened := must[*ckpt.Checkpoint](t)(ckpt.Open(path, ckpt.Options{}))
	t.Cleanup(func() { check(t, opened.Close()) })
	sd, _, err := opened.StateDict()
	check(t, err)
	return sd
}

// Evaluation data may have any of the formats that training data may have.
func TestEvaluationDataInAnotherFormat(t *testing.T) {
	var text strings.Builder
	text.WriteString("x,y\n")
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile(testdata("regression-eval.jsonl"))))) {
		var row struct{ X, Y []float32 }
		check(t, json.Unmarshal([]byte(line), &row))
		fmt.Fprintf(&text, "%q,%q\n", fmt.Sprint(row.X), fmt.Sprint(row.Y))
	}
	csv := filepath.Join(t.TempDir(), "rows.csv")
	check(t, os.WriteFile(csv, []byte(strings.ReplaceAll(text.String(), " ", ",")), 0o666))
	var losses [2]any
	for i, path := range []string{testdata("regression-eval.jsonl"), csv} {
		r := evalRuns[1].request(t.TempDir())
		r.EvalData, r.Set = path, []string{"max_steps=1", "eval_strategy=epoch", "save_strategy=epoch"}
		trainRanks(t, r)
		losses[i] = must[*hf.TrainerState](t)(openCheckpoint(t, filepath.Join(r.OutputDir, "checkpoint-1")).State()).LogHistory()[0]["eval_loss"]
	}
	if losses[0] == nil || losses[0] != losses[1] {
		t.Errorf("eval_loss %v of JSON Lines, %v of CSV", losses[0], losses[1])
	}
}
