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
	"rejoin/trainer"
)

// A run of ours, resumed from each of its own checkpoints with nothing else
// said, ends in the same bytes: every file of every later checkpoint.
func TestOwnRunResumedIsTheSameBytes(t *testing.T) {
	for _, run := range trainerRuns {
		for _, size := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%s on %d", run.name, size), func(t *testing.T) {
				t.Parallel()
				straight := t.TempDir()
				trainRanks(t, &trainer.Request{
					Config: testdata(run.config), Data: testdata(run.data), Model: testdata(run.model),
					OutputDir: straight, WorldSize: size,
				})
				var steps []string
				for _, e := range must[[]os.DirEntry](t)(os.ReadDir(straight)) {
					steps = append(steps, e.Name())
				}
				if len(steps) < 2 {
					t.Fatalf("the run left %v", steps)
				}
				for _, from := range steps {
					again := t.TempDir()
					said := trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(straight, from), OutputDir: again, WorldSize: size})
					if !strings.HasSuffix(said.lines.String(), "resume: OK\n") {
						t.Errorf("from %s: the last line is not resume: OK:\n%s", from, said.lines.String())
					}
					for _, e := range must[[]os.DirEntry](t)(os.ReadDir(again)) {
						sameFiles(t, filepath.Join(again, e.Name()), filepath.Join(straight, e.Name()))
					}
				}
			})
		}
	}
}

func sameFiles(t *testing.T, gotDir, wantDir string) {
	t.Helper()
	got, want := files(t, gotDir), files(t, wantDir)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %s differs from the uninterrupted run's", gotDir, name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s has %d files, want %d", gotDir, len(got), len(want))
	}
}

// The Trainer's checkpoints do not hold the losses since the last log entry. An
// entry that spans the resume therefore averages the steps after it only, as the
// resumed Trainer's does; and with the missing step added, it is the whole run's.
func TestLogAfterResumeFromTheTrainersCheckpoint(t *testing.T) {
	request := trainer.Request{
		Data: testdata("digits.jsonl"), Model: testdata("digits-small.yaml"), Config: testdata("digits-epoch-train.yaml"), WorldSize: 2,
	}
	everyStep := request
	everyStep.Init, everyStep.Set, everyStep.OutputDir = testdata("digits-epoch-w2", "initial_state_dict.pt"), []string{"logging_steps=1"}, t.TempDir()
	trainRanks(t, &everyStep)
	resumed := request
	resumed.Checkpoint, resumed.Config, resumed.OutputDir = testdata("digits-epoch-w2", "checkpoint-9"), "", t.TempDir()
	trainRanks(t, &resumed)

	loss := func(dir string, step int) float64 {
		for _, entry := range must[*hf.TrainerState](t)(openCheckpoint(t, filepath.Join(dir, "checkpoint-18")).State()).LogHistory() {
			if entry["step"] == int64(step) {
				return entry["loss"].(float64)
			}
		}
		t.Fatalf("%s has no log entry of step %d", dir, step)
		return 0
	}
	step9, step10 := loss(everyStep.OutputDir, 9), loss(everyStep.OutputDir, 10)
	if got := loss(resumed.OutputDir, 10); math.Abs(got-step10) > 1e-5*step10 {
		t.Errorf("resumed entry = %v, want step 10's own loss %v", got, step10)
	}
	if want := loss(testdata("digits-epoch-w2"), 10); math.Abs((step9+step10)/2-want) > 1e-5*want {
		t.Errorf("steps 9 and 10 average %v, the Trainer logged %v", (step9+step10)/2, want)
	}
}

// Where the number of ranks divides an update's rows, each update keeps its rows, and
// the new division is said (D23, huggingface/transformers#22580).
func TestAnotherWorldSizeKeepsTheUpdates(t *testing.T) {
	for _, tc := range []struct {
		run     trainerRun
		from    int
		size    int
		updates int // whole ones that follow in the epoch
		says    string
	}{
		{trainerRuns[0], 2, 1, 3, "world size 2 → 1: 8 rows per update (1 rank × 4 rows × 2 accumulated), before 8 rows per update (2 ranks × 4 rows × 1 accumulated)"},
		{trainerRuns[1], 8, 1, 1, "world size 2 → 1: 32 rows per update (1 rank × 8 rows × 4 accumulated)"},
		{trainerRuns[1], 4, 4, 5, "world size 2 → 4: 32 rows per update (4 ranks × 8 rows × 1 accumulated)"},
		{trainerRuns[3], 3, 2, 4, "world size 1 → 2: 40 rows per update (2 ranks × 10 rows × 2 accumulated)"},
	} {
		t.Run(fmt.Sprintf("%s on %d", tc.run.name, tc.size), func(t *testing.T) {
			out := t.TempDir()
			s := trainRanks(t, &trainer.Request{
				Checkpoint: testdata(tc.run.name, checkpointDir(tc.from)), Data: testdata(tc.run.data), Model: testdata(tc.run.model),
				OutputDir: out, WorldSize: tc.size, Trace: true,
			})
			if !strings.Contains(s.warns.String(), tc.says) {
				t.Errorf("said\n%s\nwant %q", s.warns.String(), tc.says)
			}
			if tc.run.worldSize != tc.size && !strings.Contains(s.warns.String(), "is derived from seed") {
				t.Errorf("a missing random state was not announced:\n%s", s.warns.String())
			}
			sameUpdates(t, tc.run, out, tc.from, tc.size, tc.updates)
		})
	}
}

// sameUpdates wants the next updates of the epoch to be made of the rows that the
// Trainer's ranks had in it, whichever rank has them now.
func sameUpdates(t *testing.T, run trainerRun, out string, from, size, updates int) {
	t.Helper()
	perUpdate := func(dir string, ranks, first, microBatches, update int) []int {
		var rows []int
		for rank := range ranks {
			trace := readTrace(t, filepath.Join(dir, fmt.Sprintf("trace-rank%d.json", rank)))
			for _, b := range trace.MicroBatches[first+update*microBatches:][:microBatches] {
				rows = append(rows, b...)
			}
		}
		slices.Sort(rows)
		return rows
	}
	theirs := run.microBatches(from+1) - run.microBatches(from)
	rows := len(perUpdate(testdata(run.name), run.worldSize, run.microBatches(from), theirs, 0))
	ours := readTrace(t, filepath.Join(out, "trace-rank0.json"))
	mine := rows / (size * len(ours.MicroBatches[0]))
	for update := range updates {
		got := perUpdate(out, size, 0, mine, update)
		want := perUpdate(testdata(run.name), run.worldSize, run.microBatches(from), theirs, update)
		if !slices.Equal(got, want) {
			t.Errorf("update %d has rows %v, want %v", from+update+1, got, want)
		}
	}
}

func TestAnotherWorldSizeIsRefusedOnRequest(t *testing.T) {
	_, errs := tryRanks(t, &trainer.Request{
		Checkpoint: testdata("regression-w2", "checkpoint-2"), Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"),
		OutputDir: t.TempDir(), WorldSize: 3, OnWorldChange: "refuse",
	})
	var refused *trainer.RequestError
	if !errors.As(errs[0], &refused) || !strings.Contains(refused.Error(), "8 rows per update (2 ranks") || !strings.Contains(refused.Error(), "12 rows per update (3 ranks") {
		t.Errorf("err = %v", errs[0])
	}
}

// Whatever chain of world sizes an epoch is trained by, each row is trained on exactly
// once in it, apart from those that fill its last round
// (D23, huggingface/transformers#22580).
func TestChainOfWorldSizesTrainsEachRowOnce(t *testing.T) {
	for _, sizes := range [][]int{{2, 4, 1}, {2, 1, 3, 4}, {3, 2, 3}, {1, 3, 1}, {4, 3, 2, 1}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			t.Parallel()
			seen := map[int]int{}
			var checkpoint string
			for i, size := range sizes {
				out := t.TempDir()
				request := &trainer.Request{
					Data: testdata("digits.jsonl"), Model: testdata("digits-small.yaml"), OutputDir: out, WorldSize: size, Trace: true,
					Set: []string{"per_device_train_batch_size=7", "num_train_epochs=2", "save_steps=1", "logging_steps=1"},
				}
				if i > 0 {
					request.Checkpoint, request.Data, request.Model, request.Set = checkpoint, "", "", nil
				}
				trainRanks(t, request)
				last := i == len(sizes)-1
				checkpoint = countEpoch(t, out, size, last, seen)
			}
			for row := range 300 {
				if n := seen[row]; n == 0 {
					t.Errorf("row %d was never trained on", row)
				}
			}
			extra := 0
			for _, n := range seen {
				extra += n - 1
			}
			if limit := 7 * sizes[len(sizes)-1]; extra >= limit {
				t.Errorf("%d rows were trained on again, a last round has %d", extra, limit)
			}
		})
	}
}

// countEpoch counts the rows of the first epoch that a run trained in its first
// three updates, or to the epoch's end if last, and returns the checkpoint there.
func countEpoch(t *testing.T, out string, size int, last bool, seen map[int]int) string {
	t.Helper()
	first := readTrace(t, filepath.Join(out, "trace-rank0.json")).FirstStep
	updates := 3
	if last {
		for epochOf(t, out, first+updates) < 1 {
			updates++
		}
	}
	for rank := range size {
		trace := readTrace(t, filepath.Join(out, fmt.Sprintf("trace-rank%d.json", rank)))
		n := updates * accumulation(t, out, first+1)
		if last { // the epoch's last update may be a short one; the next epoch has every row once
			batches := (300 + 7*size - 1) / (7 * size)
			n = len(trace.MicroBatches) - batches
		}
		for _, rows := range trace.MicroBatches[:n] {
			for _, row := range rows {
				seen[row]++
			}
		}
	}
	return filepath.Join(out, checkpointDir(first+updates))
}

func epochOf(t *testing.T, out string, step int) float64 {
	t.Helper()
	return must[*hf.TrainerState](t)(openCheckpoint(t, filepath.Join(out, checkpointDir(step))).State()).Epoch()
}

func accumulation(t *testing.T, out string, step int) int {
	t.Helper()
	m := must[*hf.Manifest](t)(openCheckpoint(t, filepath.Join(out, checkpointDir(step))).Manifest())
	return int(m.Arguments["gradient_accumulation_steps"].(int64))
}

func TestFinishedRunHasNothingLeft(t *testing.T) {
	out := t.TempDir()
	s := trainRanks(t, &trainer.Request{
		Checkpoint: testdata("regression-w2", "checkpoint-6"), Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"),
		OutputDir: out, WorldSize: 2,
	})
	if !strings.Contains(s.lines.String(), "nothing left to do") || !strings.HasSuffix(s.lines.String(), "resume: OK\n") {
		t.Errorf("said %q", s.lines.String())
	}
	if left := must[[]os.DirEntry](t)(os.ReadDir(out)); len(left) != 0 {
		t.Errorf("it wrote %v", left)
	}
}

// With the bug's own settings, every rank fails with torch's text; a single one
// was given plain cpu, and resumes.
func TestTheBugOnDemand(t *testing.T) {
	request := trainer.Request{
		Checkpoint: testdata("regression-w2", "checkpoint-2"), Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"),
		MapLocation: "device", LocationRules: "torch",
	}
	two := request
	two.WorldSize, two.OutputDir = 2, filepath.Join(t.TempDir(), "never")
	const text = "RuntimeError: don't know how to restore data location of torch.storage.UntypedStorage (tagged with cpu:0)"
	if !strings.Contains(string(must[[]byte](t)(os.ReadFile(testdata("bug-rank0.log")))), "[rank0]: "+text) {
		t.Fatal("the recorded log does not hold the text")
	}
	_, errs := tryRanks(t, &two)
	for rank, err := range errs {
		var agreed *trainer.RankError
		if !errors.As(err, &agreed) || agreed.Report(rank) != text {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if len(errs) != 2 {
		t.Errorf("%d ranks ran", len(errs))
	}
	if _, err := os.Stat(two.OutputDir); err == nil {
		t.Error("the failed resume wrote something")
	}
	one := request
	one.WorldSize, one.OutputDir = 1, t.TempDir()
	if s := trainRanks(t, &one); !strings.HasSuffix(s.lines.String(), "resume: OK\n") {
		t.Errorf("one worker: %s", s.lines.String())
	}
}

// With fewer, larger or split batches, an epoch's updates may change even where an
// update's rows do not: then progress is counted anew, and said
// (D23, huggingface/transformers#22580).
func TestAnotherWorldSizeCountsEpochsTruly(t *testing.T) {
	rows := strings.SplitAfter(string(must[[]byte](t)(os.ReadFile(testdata("regression.jsonl")))), "\n")
	write := func(n int) string {
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		check(t, os.WriteFile(path, []byte(strings.Join(rows[:n], "")), 0o666))
		return path
	}
	for name, tc := range map[string]struct {
		rows, was, now int
		set            []string
		from           int
		says           string
		steps          int // of the whole run, after
	}{
		"drop_last, 4 → 2": {
			34, 4, 2,
			[]string{"per_device_train_batch_size=3", "dataloader_drop_last=true", "num_train_epochs=2"},
			2,
			"step 2 of 4 (12 rows per update (4 ranks × 3 rows × 1 accumulated)) becomes step 3 of 6 (12 rows", 6,
		},
		"split_batches, 4 → 2": {
			32, 4, 2,
			[]string{"per_device_train_batch_size=8", "accelerator_config.split_batches=true", "num_train_epochs=2"},
			3,
			"world size 4 → 2: 8 rows per update (2 ranks × 4 rows × 1 accumulated), before 8 rows per update (4 ranks × 2 rows × 1 accumulated)", 8,
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, data := t.TempDir(), write(tc.rows)
			trainRanks(t, &trainer.Request{
				Data: data, Model: testdata("regression.yaml"), OutputDir: out, WorldSize: tc.was,
				Set: append(tc.set, "save_steps=1", "logging_steps=1"),
			})
			again := t.TempDir()
			s := trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(out, checkpointDir(tc.from)), OutputDir: again, WorldSize: tc.now})
			if !strings.Contains(s.warns.String(), tc.says) {
				t.Errorf("said %s\nwant %s", s.warns.String(), tc.says)
			}
			if _, err := os.Stat(filepath.Join(again, checkpointDir(tc.steps))); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(again, checkpointDir(tc.steps+1))); err == nil {
				t.Errorf("it trained beyond step %d", tc.steps)
			}
		})
	}
}
