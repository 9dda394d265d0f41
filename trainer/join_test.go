package trainer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rejoin/ckpt"
	"rejoin/ckpt/hf"
	"rejoin/tensor"
	"rejoin/trainer"
)

// weightsIn reads the weights in a file.
func weightsIn(t *testing.T, path string) *tensor.StateDict {
	t.Helper()
	c := must[*ckpt.Checkpoint](t)(ckpt.Open(path, ckpt.Options{}))
	t.Cleanup(func() { check(t, c.Close()) })
	weights, _, err := c.StateDict()
	check(t, err)
	return weights
}

// joining is a request to train on rows that do not fill the last round of an epoch.
func joining(t *testing.T, rows, worldSize int, set ...string) *trainer.Request {
	t.Helper()
	return &trainer.Request{
		Data: firstRows(t, rows), Model: testdata("regression.yaml"), OutputDir: t.TempDir(), WorldSize: worldSize, Trace: true, UnevenRanks: "join",
		Set: append([]string{"per_device_train_batch_size=2", "num_train_epochs=3", "save_steps=1", "logging_steps=1", "learning_rate=0.01"}, set...),
	}
}

// Ranks with unequal numbers of batches end each epoch together, train every row
// once, and a resume at any step is exact (D26, pytorch#33148).
func TestUnevenRanksJoin(t *testing.T) {
	for _, c := range []struct{ rows, worldSize, perEpoch, accumulation int }{
		{rows: 11, worldSize: 2, perEpoch: 3, accumulation: 1}, // 3 and 3 batches, the last of 2 rows and of 1
		{rows: 9, worldSize: 2, perEpoch: 3, accumulation: 1},  // 3 and 2 batches
		{rows: 9, worldSize: 2, perEpoch: 3, accumulation: 2},  // the short group's only batch is empty on rank 1
		{rows: 9, worldSize: 2, perEpoch: 3, accumulation: 3},  // the group's last batch is empty on rank 1
		{rows: 4, worldSize: 3, perEpoch: 1, accumulation: 1},  // rank 2 has no rows at all
	} {
		t.Run(fmt.Sprintf("%d rows, %d ranks, accumulation %d", c.rows, c.worldSize, c.accumulation), func(t *testing.T) {
			r := joining(t, c.rows, c.worldSize, fmt.Sprintf("gradient_accumulation_steps=%d", c.accumulation))
			trainRanks(t, r)
			for epoch := range 3 {
				var seen []int
				for rank := range c.worldSize {
					trace := readTrace(t, filepath.Join(r.OutputDir, fmt.Sprintf("trace-rank%d.json", rank)))
					if len(trace.MicroBatches) != 3*c.perEpoch {
						t.Fatalf("rank %d had %d micro-batches in 3 epochs, expected %d", rank, len(trace.MicroBatches), 3*c.perEpoch)
					}
					seen = append(seen, slices.Concat(trace.MicroBatches[epoch*c.perEpoch:][:c.perEpoch]...)...)
				}
				slices.Sort(seen)
				for i, row := range seen {
					if len(seen) != c.rows || row != i {
						t.Fatalf("epoch %d trained on rows %v, expected each of %d once", epoch, seen, c.rows)
					}
				}
			}
			last := (c.perEpoch + c.accumulation - 1) / c.accumulation * 3
			for k := 1; k < last; k++ {
				again := t.TempDir()
				trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(r.OutputDir, checkpointDir(k)), OutputDir: again, WorldSize: c.worldSize, Trace: true})
				sameFiles(t, filepath.Join(again, checkpointDir(last)), filepath.Join(r.OutputDir, checkpointDir(last)))
				sameTail(t, r.OutputDir, again, c.worldSize)
			}
		})
	}
}

// A rank without rows takes its part in every bucket of the reduction.
func TestUnevenRanksJoinInSeveralBuckets(t *testing.T) {
	r := joining(t, 9, 2, "num_train_epochs=1")
	r.Model = filepath.Join(t.TempDir(), "wide.yaml")
	check(t, os.WriteFile(r.Model, []byte(`layers:
  - {linear: [10, 600], name: "0"}
  - relu
  - {linear: [600, 600], name: "2"}
  - relu
  - {linear: [600, 1], name: "4"}
loss: mse
input: x
target: y
`), 0o666))
	trainRanks(t, r)
	again := t.TempDir()
	trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(r.OutputDir, "checkpoint-2"), OutputDir: again, WorldSize: 2})
	sameFiles(t, filepath.Join(again, "checkpoint-3"), filepath.Join(r.OutputDir, "checkpoint-3"))
	before, after := openCheckpoint(t, filepath.Join(r.OutputDir, "checkpoint-2")), openCheckpoint(t, filepath.Join(r.OutputDir, "checkpoint-3"))
	for _, name := range []string{"0.weight", "2.weight", "4.weight"} {
		a, _ := must[*tensor.StateDict](t)(before.Weights()).Get(name)
		b, _ := must[*tensor.StateDict](t)(after.Weights()).Get(name)
		if slices.Equal(floats(t, a), floats(t, b)) {
			t.Errorf("%s did not move in the update that ends the epoch", name)
		}
	}
}

// Joined training evaluates as any other: the last round is filled, and what goes
// beyond the data is cut off.
func TestUnevenRanksJoinEvaluates(t *testing.T) {
	var losses [2]any
	for i, policy := range []string{"pad", "join"} {
		r := joining(t, 8, 2, "max_steps=1", "eval_strategy=steps", "eval_steps=1", "per_device_eval_batch_size=1")
		r.UnevenRanks, r.EvalData = policy, firstRows(t, 5)
		trainRanks(t, r)
		log := must[*hf.TrainerState](t)(openCheckpoint(t, filepath.Join(r.OutputDir, "checkpoint-1")).State()).LogHistory()
		losses[i] = log[len(log)-1]["eval_loss"]
	}
	if losses[0] == nil || losses[0] != losses[1] {
		t.Errorf("eval_loss %v padded, %v joined", losses[0], losses[1])
	}
}

// Dropping leaves rows out, and repeats none, whichever sampler deals them out.
func TestUnevenRanksDrop(t *testing.T) {
	for _, name := range []string{trainer.SeedableRandom, trainer.Sequential, trainer.Distributed} {
		r := joining(t, 4, 3, "per_device_train_batch_size=1", "num_train_epochs=1")
		r.UnevenRanks, r.Sampler = "drop", name
		trainRanks(t, r)
		var seen []int
		for rank := range 3 {
			trace := readTrace(t, filepath.Join(r.OutputDir, fmt.Sprintf("trace-rank%d.json", rank)))
			seen = append(seen, slices.Concat(trace.MicroBatches...)...)
		}
		slices.Sort(seen)
		if len(seen) != 3 || len(slices.Compact(seen)) != 3 {
			t.Errorf("%s: trained on rows %v, expected three of four once", name, seen)
		}
	}
}

// A rank without rows adds a zero gradient to the mean over all ranks; the loss
// that is logged is the mean over those that had rows.
func TestRankWithoutRowsAddsZeros(t *testing.T) {
	set := []string{"optim=sgd", "learning_rate=0.5", "lr_scheduler_type=constant", "max_grad_norm=0", "max_steps=1"}
	alone, two := joining(t, 2, 1, set...), joining(t, 2, 2, set...)
	var moved [2][]float32
	var logged [2]float64
	for i, r := range []*trainer.Request{alone, two} {
		r.Init = testdata("regression-w2", "initial_state_dict.pt")
		trainRanks(t, r)
		c := openCheckpoint(t, filepath.Join(r.OutputDir, "checkpoint-1"))
		after, _ := must[*tensor.StateDict](t)(c.Weights()).Get("fc.weight")
		before, _ := weightsIn(t, r.Init).Get("fc.weight")
		moved[i] = floats(t, after)
		for j, v := range floats(t, before) {
			moved[i][j] -= v
		}
		logged[i] = must[*hf.TrainerState](t)(c.State()).LogHistory()[0]["loss"].(float64)
	}
	for j := range moved[0] {
		if math.Abs(float64(moved[1][j]-moved[0][j]/2)) > 1e-6 || moved[0][j] == 0 {
			t.Errorf("fc.weight[%d] moved by %v, expected half of %v", j, moved[1][j], moved[0][j])
		}
	}
	if logged[0] != logged[1] {
		t.Errorf("logged loss %v, expected %v: rank 0's alone", logged[1], logged[0])
	}
}

func TestUnevenRanksAreDeclared(t *testing.T) {
	r := joining(t, 11, 2, "accelerator_config.even_batches=false")
	for _, c := range []struct{ policy, set, text string }{
		{policy: "share", text: `--uneven-ranks: found "share", expected pad`},
		{policy: "join", set: "accelerator_config.dispatch_batches=true", text: "uneven_ranks: found join with"},
		{set: "per_device_train_batch_size=11", text: "set even_batches, drop_last or join"},
	} {
		r.UnevenRanks = c.policy
		request := *r
		if c.set != "" {
			request.Set = append(slices.Clone(r.Set), c.set)
		}
		if _, errs := tryRanks(t, &request); len(errs) == 0 || errs[0] == nil || !strings.Contains(errs[0].Error(), c.text) {
			t.Errorf("%s %s: %v, expected %q", c.policy, c.set, errs, c.text)
		}
	}
}

// Training under torch's Join sees the same gradients.
func TestInteropJoin(t *testing.T) {
	python := interopPythonWith(t, "import torch")
	r := joining(t, 9, 2, "optim=sgd", "learning_rate=0.1", "lr_scheduler_type=constant", "max_grad_norm=0")
	r.Init = absolute(t, "regression-w2", "initial_state_dict.pt")
	trainRanks(t, r)
	batches := make([][][][]int, 2)
	for rank := range batches {
		all := readTrace(t, filepath.Join(r.OutputDir, fmt.Sprintf("trace-rank%d.json", rank))).MicroBatches
		for epoch := range 3 {
			mine := slices.Clone(all[3*epoch:][:3])
			batches[rank] = append(batches[rank], slices.DeleteFunc(mine, func(rows []int) bool { return len(rows) == 0 }))
		}
	}
	if len(batches[1][0]) != 2 {
		t.Fatalf("rank 1 has %d batches with rows in an epoch, expected one less than rank 0", len(batches[1][0]))
	}
	dir := t.TempDir()
	path, out := filepath.Join(dir, "case.json"), filepath.Join(dir, "theirs.pt")
	raw := must[[]byte](t)(json.Marshal(map[string]any{"data": r.Data, "init": r.Init, "out": out, "rendezvous": filepath.Join(dir, "rendezvous"), "lr": 0.1, "batches": batches}))
	check(t, os.WriteFile(path, raw, 0o666))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, filepath.Join("..", "scripts", "join_run.py"), path)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	theirs := weightsIn(t, out)
	ours := must[*tensor.StateDict](t)(openCheckpoint(t, filepath.Join(r.OutputDir, "checkpoint-9")).Weights())
	for _, name := range []string{"fc.weight", "fc.bias"} {
		got, _ := ours.Get(name)
		want, _ := theirs.Get(name)
		compareTensors(t, name, got, want, 1e-6)
	}
}
