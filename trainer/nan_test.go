package trainer_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt/hf"
	"rejoin/data"
	"rejoin/pyobj"
	"rejoin/tensor"
	"rejoin/trainer"
)

// poisoned is a request to train ten updates on data in which one input is value:
// in the row that rank 1 of two trains in update 7, and nobody else in that epoch.
func poisoned(t *testing.T, value string, set ...string) (r *trainer.Request, row int) {
	t.Helper()
	sampler := data.Sampler{Rows: 40, BatchSize: 2, WorldSize: 2, Rank: 1, EvenBatches: true, Seed: 42}
	row = sampler.Epoch(0)[6][1]
	lines := strings.SplitAfter(string(must[[]byte](t)(os.ReadFile(testdata("regression.jsonl")))), "\n")
	_, rest, _ := strings.Cut(lines[row], ",")
	lines[row] = `{"x": [` + value + "," + rest
	dir := t.TempDir()
	path := filepath.Join(dir, "rows.jsonl")
	check(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o666))
	return &trainer.Request{
		Data: path, Model: testdata("regression.yaml"), OutputDir: filepath.Join(dir, "out"), WorldSize: 2,
		Set: append([]string{
			"per_device_train_batch_size=2", "max_steps=10", "save_steps=2", "logging_steps=1", "learning_rate=0.01",
		}, set...),
	}, row
}

// checkpoints lists the checkpoints in dir by step.
func checkpoints(t *testing.T, dir string) (steps []int) {
	t.Helper()
	for _, found := range must[[]hf.Found](t)(hf.List(dir)) {
		steps = append(steps, found.Step)
	}
	return steps
}

// All ranks stop before the update, with one message, and save no more
// (D29, huggingface/trl#6702).
func TestNonFiniteLossStopsAllRanksTogether(t *testing.T) {
	r, row := poisoned(t, "1e25")
	_, errs := tryRanks(t, r)
	said := reports(errs)
	if len(said) != 1 {
		t.Fatalf("said %q, want one message", said)
	}
	for _, part := range []string{
		"step 7: rank 1: the loss is +Inf", "forward pass overflowed", fmt.Sprint(row),
		"the last good checkpoint is " + filepath.Join(r.OutputDir, "checkpoint-6"), "--on-nan skip",
	} {
		if !strings.Contains(said[0], part) {
			t.Errorf("said %q, want %q in it", said[0], part)
		}
	}
	for rank, err := range errs {
		var found *trainer.NonFiniteError
		if !errors.As(err, &found) || found.Step != 7 || !slices.Equal(found.Ranks, []int{1}) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if got := checkpoints(t, r.OutputDir); !slices.Equal(got, []int{2, 4, 6}) {
		t.Errorf("checkpoints %v, want those before step 7", got)
	}
	s := trainRanks(t, &trainer.Request{Checkpoint: r.OutputDir, WorldSize: 2, OnNaN: "skip"})
	says(t, s, "step 7 is skipped on all ranks: rank 1: the loss is +Inf", "resume: OK")
}

// A skipped update moves neither weights nor optimizer nor schedule on any rank;
// its row is counted, its loss logged as it is; a resume across it is exact.
func TestNonFiniteUpdateIsSkippedByAllRanks(t *testing.T) {
	r, _ := poisoned(t, "Infinity", "on_nan=skip", "save_steps=1")
	s := trainRanks(t, r)
	if n := strings.Count(s.warns.String(), "is skipped on all ranks"); n != 1 {
		t.Errorf("%d updates are said to be skipped:\n%s", n, s.warns.String())
	}
	at := func(step int) *hf.Checkpoint {
		return openCheckpoint(t, filepath.Join(r.OutputDir, checkpointDir(step)))
	}
	for _, name := range []string{"fc.weight", "fc.bias"} {
		before, _ := must[*tensor.StateDict](t)(at(6).Weights()).Get(name)
		skipped, _ := must[*tensor.StateDict](t)(at(7).Weights()).Get(name)
		last, _ := must[*tensor.StateDict](t)(at(10).Weights()).Get(name)
		compareTensors(t, name, skipped, before, 0)
		if slices.Equal(floats(t, last), floats(t, before)) {
			t.Errorf("%s did not move after the skipped update", name)
		}
	}
	compareValues(t, "scheduler", must[*pyobj.Dict](t)(at(7).Scheduler()), must[*pyobj.Dict](t)(at(6).Scheduler()))
	compareOptimizers(t, "optimizer", must[*pyobj.Dict](t)(at(7).Optimizer()), must[*pyobj.Dict](t)(at(6).Optimizer()))
	state := must[*hf.TrainerState](t)(at(10).State())
	for i, entry := range state.LogHistory() {
		loss, norm := entry["loss"].(float64), entry["grad_norm"].(float64)
		if bad := !(math.Abs(loss) < math.MaxFloat32) && !(norm < math.MaxFloat32); bad != (i == 6) {
			t.Errorf("entry %d: loss %v, grad_norm %v", i, loss, norm)
		}
	}
	aside := filepath.Join(filepath.Dir(r.OutputDir), "aside")
	check(t, os.Rename(r.OutputDir, aside))
	for _, from := range []int{6, 7} {
		out := t.TempDir()
		trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(aside, checkpointDir(from)), OutputDir: out, WorldSize: 2})
		sameFiles(t, filepath.Join(out, "checkpoint-10"), filepath.Join(aside, "checkpoint-10"))
	}
}

// A loss that is not finite and not yet logged goes into the manifest and back.
func TestPendingNonFiniteLossSurvivesAResume(t *testing.T) {
	r, _ := poisoned(t, "Infinity", "on_nan=skip", "logging_steps=5", "save_steps=1")
	trainRanks(t, r)
	out := t.TempDir()
	trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(r.OutputDir, "checkpoint-8"), OutputDir: out, WorldSize: 2})
	sameFiles(t, filepath.Join(out, "checkpoint-10"), filepath.Join(r.OutputDir, "checkpoint-10"))
}

func TestNonFiniteUpdateIsGoneOnWith(t *testing.T) {
	r, _ := poisoned(t, "Infinity", "on_nan=go-on")
	s := trainRanks(t, r)
	says(t, s, "the run goes on regardless")
	c := openCheckpoint(t, filepath.Join(r.OutputDir, "checkpoint-10"))
	weight, _ := must[*tensor.StateDict](t)(c.Weights()).Get("fc.weight")
	if w := floats(t, weight); !math.IsNaN(float64(w[0])) {
		t.Errorf("weights = %v, want torch's NaN", w)
	}
	log := must[*hf.TrainerState](t)(c.State()).LogHistory()
	if first, last := log[5]["loss"].(float64), log[9]["loss"].(float64); math.IsNaN(first) || !math.IsNaN(last) {
		t.Errorf("losses of steps 6 and 10 are %v and %v", first, last)
	}
}

// What is not finite need not be a loss.
func TestNonFiniteGradientIsExplained(t *testing.T) {
	for name, tc := range map[string]struct {
		value string
		set   string
		says  string
	}{
		// The loss of 6e19 is about 1e38, its gradient above the largest float32.
		"gradient overflows":           {"6e19", "on_nan=stop", "rank 1: the gradient of fc.weight is"},
		"only the norm overflows":      {"1e15", "on_nan=stop", "though every rank's gradient is finite"},
		"only the norm, not clipped":   {"1e15", "max_grad_norm=0", "though every rank's gradient is finite"},
		"NaN in the data":              {"NaN", "on_nan=stop", "has NaN in input column 0"},
		"a policy that does not exist": {"1", "on_nan=hope", "one of stop, skip, go-on"},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := poisoned(t, tc.value, tc.set)
			_, errs := tryRanks(t, r)
			if said := reports(errs); len(said) != 1 || !strings.Contains(said[0], tc.says) {
				t.Errorf("said %q, want %q", said, tc.says)
			}
		})
	}
}

// Skipping updates of a model whose parameters are NaN would skip for ever.
func TestSkippingStopsWhereNothingCanBeFinite(t *testing.T) {
	ruined, _ := poisoned(t, "Infinity", "on_nan=go-on")
	trainRanks(t, ruined)
	_, errs := tryRanks(t, &trainer.Request{
		Checkpoint: filepath.Join(ruined.OutputDir, "checkpoint-8"), OutputDir: filepath.Join(t.TempDir(), "out"), WorldSize: 2,
		Set: []string{"on_nan=skip"},
	})
	if said := reports(errs); len(said) != 1 || !strings.Contains(said[0], "step 9: ") || !strings.Contains(said[0], "parameter fc.weight has NaN") ||
		!strings.Contains(said[0], "go on from an earlier checkpoint") {
		t.Errorf("said %q", said)
	}
}

// An infinite evaluation loss is logged as it is, and is no best model.
func TestNonFiniteEvaluationIsLoggedAsItIs(t *testing.T) {
	r, _ := poisoned(t, "Infinity", "on_nan=skip", "eval_strategy=steps", "eval_steps=2", "load_best_model_at_end=true")
	r.EvalData = r.Data
	trainRanks(t, r)
	state := must[*hf.TrainerState](t)(openCheckpoint(t, filepath.Join(r.OutputDir, "checkpoint-10")).State())
	if best := state.Get("best_model_checkpoint"); best != nil {
		t.Errorf("best_model_checkpoint = %v", best)
	}
	evaluations := 0
	for _, entry := range state.LogHistory() {
		if loss, ok := entry["eval_loss"].(float64); ok {
			evaluations++
			if math.Abs(loss) < math.MaxFloat32 {
				t.Errorf("eval_loss = %v", loss)
			}
		}
	}
	if evaluations != 5 {
		t.Errorf("%d evaluations", evaluations)
	}
}
