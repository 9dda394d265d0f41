package trainer_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt/hf"
	"rejoin/trainer"
)

// firstRows writes the first n rows of the regression data.
func firstRows(t *testing.T, n int) string {
	t.Helper()
	return rowsOf(t, "regression.jsonl", n)
}

// rowsOf writes the first n rows of a data file.
func rowsOf(t *testing.T, name string, n int) string {
	t.Helper()
	lines := strings.SplitAfter(string(must[[]byte](t)(os.ReadFile(testdata(name)))), "\n")
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	check(t, os.WriteFile(path, []byte(strings.Join(lines[:n], "")), 0o666))
	return path
}

// Accumulation groups end with the epoch. The last one is stepped on and divided
// by its real count: with plain numbers, it equals a run whose group is that short
// by itself (D28, huggingface/transformers#22098).
func TestShortLastGroupIsSteppedOn(t *testing.T) {
	for _, tc := range []struct {
		batches, epochs int
		groups          [][]int // micro-batches of each epoch's updates
	}{
		{7, 3, [][]int{{4, 3}, {4, 3}, {4, 3}}},
		{3, 2, [][]int{{3}, {3}}},
	} {
		t.Run(fmt.Sprintf("%d batches", tc.batches), func(t *testing.T) {
			out := t.TempDir()
			trainRanks(t, &trainer.Request{
				Data: firstRows(t, 2*tc.batches), Model: testdata("regression.yaml"), OutputDir: out, WorldSize: 1, Trace: true,
				Set: []string{
					"per_device_train_batch_size=2", "gradient_accumulation_steps=4", fmt.Sprintf("num_train_epochs=%d", tc.epochs),
					"save_steps=1", "logging_steps=1", "learning_rate=0.01",
				},
			})
			updates := len(slices.Concat(tc.groups...))
			state := must[*hf.TrainerState](t)(openCheckpoint(t, filepath.Join(out, checkpointDir(updates))).State())
			if state.MaxSteps() != updates || len(checkpoints(t, out)) != updates {
				t.Errorf("foretold %d updates and saved %v, want %d", state.MaxSteps(), checkpoints(t, out), updates)
			}
			var epochs []float64
			for _, entry := range state.LogHistory() {
				epochs = append(epochs, entry["epoch"].(float64))
			}
			var want []float64
			for e, groups := range tc.groups {
				done := 0
				for _, n := range groups {
					done += n
					want = append(want, float64(e)+float64(done)/float64(tc.batches))
				}
			}
			if !slices.Equal(epochs, want) {
				t.Errorf("epochs %v, want %v", epochs, want)
			}
			trace := readTrace(t, filepath.Join(out, "trace-rank0.json"))
			sameRowsEachEpoch(t, trace.MicroBatches, tc.batches, tc.epochs)
			dividedByItsCount(t, out, trace.MicroBatches, tc.groups[0])
		})
	}
}

// sameRowsEachEpoch wants every epoch to train each row once.
func sameRowsEachEpoch(t *testing.T, micro [][]int, batches, epochs int) {
	t.Helper()
	if len(micro) != batches*epochs {
		t.Fatalf("%d micro-batches, want %d", len(micro), batches*epochs)
	}
	for e := range epochs {
		rows := slices.Sorted(slices.Values(slices.Concat(micro[e*batches:][:batches]...)))
		for i, row := range rows {
			if row != i {
				t.Fatalf("epoch %d trains rows %v", e, rows)
			}
		}
	}
}

// dividedByItsCount trains the epoch's last group again as one batch: the mean
// over its micro-batches' means is the mean over its rows.
func dividedByItsCount(t *testing.T, out string, micro [][]int, groups []int) {
	t.Helper()
	last, first := len(groups), 0
	for _, n := range groups[:last-1] {
		first += n
	}
	rows := slices.Concat(micro[first:][:groups[last-1]]...)
	lines := strings.SplitAfter(string(must[[]byte](t)(os.ReadFile(testdata("regression.jsonl")))), "\n")
	var text strings.Builder
	for _, row := range rows {
		text.WriteString(lines[row])
	}
	path, again := filepath.Join(t.TempDir(), "group.jsonl"), t.TempDir()
	check(t, os.WriteFile(path, []byte(text.String()), 0o666))
	r := trainer.Request{
		Data: path, Model: testdata("regression.yaml"), OutputDir: again, WorldSize: 1,
		Set: []string{fmt.Sprintf("per_device_train_batch_size=%d", len(rows)), "max_steps=1", "logging_steps=1", "learning_rate=0"},
	}
	if last > 1 {
		r.Init = filepath.Join(out, checkpointDir(last-1), "model.safetensors")
	}
	trainRanks(t, &r)
	one := logEntry(t, filepath.Join(again, "checkpoint-1"), 1)
	group := logEntry(t, filepath.Join(out, checkpointDir(last)), last)
	for _, key := range []string{"loss", "grad_norm"} {
		a, b := group[key].(float64), one[key].(float64)
		if !(math.Abs(a-b) <= 1e-5*math.Abs(b)) {
			t.Errorf("%s of the short group is %v, of its rows at once %v", key, a, b)
		}
	}
}

func logEntry(t *testing.T, dir string, step int) map[string]any {
	t.Helper()
	for _, entry := range must[*hf.TrainerState](t)(openCheckpoint(t, dir).State()).LogHistory() {
		if entry["step"] == int64(step) {
			return entry
		}
	}
	t.Fatalf("%s has no log entry of step %d", dir, step)
	return nil
}

// The learning rates of a whole run and of one that was cut are the same numbers,
// with a warm-up that ends where the run was cut, for every shape of schedule
// (D14, Lightning-AI/pytorch-lightning#1772).
func TestLearningRatesAcrossAResume(t *testing.T) {
	for _, schedule := range []string{"linear", "cosine", "constant_with_warmup", "constant"} {
		for _, cut := range []int{4, 5, 10} {
			t.Run(fmt.Sprintf("%s cut at %d", schedule, cut), func(t *testing.T) {
				t.Parallel()
				request := func(out string) *trainer.Request {
					return &trainer.Request{
						Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"), OutputDir: out, WorldSize: 2,
						Set: []string{
							"per_device_train_batch_size=4", "max_steps=12", "logging_steps=1", "learning_rate=0.01", "warmup_steps=5",
							"lr_scheduler_type=" + schedule, fmt.Sprintf("save_steps=%d", cut),
						},
					}
				}
				straight, resumed := t.TempDir(), t.TempDir()
				trainRanks(t, request(straight))
				trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(straight, checkpointDir(cut)), OutputDir: resumed, WorldSize: 2})
				want, got := rates(t, straight), rates(t, resumed)
				if len(want) != 12 || !slices.Equal(got, want) {
					t.Errorf("learning rates %v, want %v", got, want)
				}
				if schedule != "constant" && (want[0] != 0 || want[5] != 0.01) {
					t.Errorf("the warm-up is off by one: %v", want)
				}
			})
		}
	}
}

func rates(t *testing.T, dir string) (out []float64) {
	t.Helper()
	for _, entry := range must[*hf.TrainerState](t)(openCheckpoint(t, filepath.Join(dir, "checkpoint-12")).State()).LogHistory() {
		out = append(out, entry["learning_rate"].(float64))
	}
	return out
}
