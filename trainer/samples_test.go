package trainer_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt/hf"
	"rejoin/trainer"
)

// Steps are micro-batches by groups of four, of which the epoch's last has three:
// after a resume each rank has the rows that it would have had, and the position
// is kept in samples (D16, huggingface/transformers#5605).
func TestAccumulatedMicroBatchesAreNotRepeated(t *testing.T) {
	const ranks, perRank, batches, epochs = 2, 2, 27, 2
	const rows = ranks * perRank * batches
	straight := t.TempDir()
	trainRanks(t, &trainer.Request{
		Data: rowsOf(t, "digits.jsonl", rows), Model: testdata("digits-small.yaml"), OutputDir: straight, WorldSize: ranks, Trace: true,
		Set: []string{
			fmt.Sprintf("per_device_train_batch_size=%d", perRank), "gradient_accumulation_steps=4", fmt.Sprintf("num_train_epochs=%d", epochs), "save_steps=1",
		},
	})
	for _, tc := range []struct{ step, microBatches int }{{5, 20}, {6, 24}, {7, batches}, {12, batches + 20}} {
		t.Run(fmt.Sprintf("saved at step %d", tc.step), func(t *testing.T) {
			from := filepath.Join(straight, checkpointDir(tc.step))
			manifest := must[*hf.Manifest](t)(openCheckpoint(t, from).Manifest())
			if want := int64(tc.microBatches * ranks * perRank); manifest.SamplesSeen != want {
				t.Errorf("%d samples are seen, want %d", manifest.SamplesSeen, want)
			}
			again := t.TempDir()
			trainRanks(t, &trainer.Request{Checkpoint: from, OutputDir: again, WorldSize: ranks, Trace: true})
			sameTail(t, straight, again, ranks)
			for rank := range ranks {
				trace := readTrace(t, filepath.Join(again, fmt.Sprintf("trace-rank%d.json", rank)))
				if want := epochs*batches - tc.microBatches; trace.FirstStep != tc.step || len(trace.MicroBatches) != want {
					t.Errorf("rank %d goes on after step %d with %d micro-batches, want %d", rank, trace.FirstStep, len(trace.MicroBatches), want)
				}
			}
			sameFiles(t, filepath.Join(again, "checkpoint-14"), filepath.Join(straight, "checkpoint-14"))
		})
	}
}

// What two ranks with batches of 4 began, 1, 3 and 4 ranks, and smaller batches,
// go on with: steps and epochs are counted in samples, both global batches and the
// learning rate's policy are said, and no row is lost or trained on twice
// (D23, huggingface/transformers#22580).
func TestAnotherDivisionGoesOnInSamples(t *testing.T) {
	const rows, epochs, lr = 100, 2, 0.01
	straight := t.TempDir()
	data := rowsOf(t, "digits.jsonl", rows)
	trainRanks(t, &trainer.Request{
		Data: data, Model: testdata("digits-small.yaml"), OutputDir: straight, WorldSize: 2, Trace: true,
		Set: []string{"per_device_train_batch_size=4", fmt.Sprintf("num_train_epochs=%d", epochs), "save_steps=6", fmt.Sprintf("learning_rate=%v", lr)},
	})
	const was = "(2 ranks × 4 rows × 1 accumulated)"
	for _, tc := range []struct {
		name        string
		size, batch int
		step, steps int // where the resumed run begins, and ends
		says        []string
	}{
		{"1 rank", 1, 4, 6, 26, []string{"world size 2 → 1: 8 rows per update (1 rank × 4 rows × 2 accumulated), before 8 rows per update " + was}},
		{"3 ranks", 3, 4, 4, 18, []string{"step 6 of 26 (8 rows per update " + was + ") becomes step 4 of 18 (12 rows per update (3 ranks × 4 rows × 1 accumulated)"}},
		{"4 ranks", 4, 4, 3, 14, []string{"step 6 of 26 (8 rows per update " + was + ") becomes step 3 of 14 (16 rows per update (4 ranks × 4 rows × 1 accumulated)"}},
		{"batches of 2", 2, 2, 12, 50, []string{"step 6 of 26 (8 rows per update " + was + ") becomes step 12 of 50 (4 rows per update (2 ranks × 2 rows × 1 accumulated)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := t.TempDir()
			s := trainRanks(t, &trainer.Request{
				Checkpoint: filepath.Join(straight, "checkpoint-6"), OutputDir: out, WorldSize: tc.size, Trace: true,
				Set: []string{fmt.Sprintf("per_device_train_batch_size=%d", tc.batch), "logging_steps=1", "save_steps=1"},
			})
			if tc.steps != 26 {
				tc.says = append(tc.says, "epoch 0 goes on after 48 of its 100 rows", "the learning rate goes on at the same share of the schedule")
			}
			for _, want := range tc.says {
				if !strings.Contains(s.warns.String(), want) {
					t.Errorf("said\n%s\nwant %q", s.warns.String(), want)
				}
			}
			last := filepath.Join(out, checkpointDir(tc.steps))
			state := must[*hf.TrainerState](t)(openCheckpoint(t, last).State())
			if state.MaxSteps() != tc.steps || state.Epoch() != epochs {
				t.Errorf("the run ends at step %d in epoch %v", state.MaxSteps(), state.Epoch())
			}
			rate := logEntry(t, last, tc.step+1)["learning_rate"].(float64)
			if want := lr * float64(tc.steps-tc.step) / float64(tc.steps); rate < 0.999*want || rate > 1.001*want {
				t.Errorf("the first step's learning rate is %v, want %v", rate, want)
			}
			eachRowOnce(t, straight, out, tc.size, tc.batch, rows)
		})
	}
}

// eachRowOnce wants every row in the first epoch, of which two ranks trained 6
// updates and the resumed run the rest, and in the second; what comes twice fills
// an epoch's last round.
func eachRowOnce(t *testing.T, straight, out string, size, batch, rows int) {
	t.Helper()
	var first, second []int
	for rank := range 2 {
		trace := readTrace(t, filepath.Join(straight, fmt.Sprintf("trace-rank%d.json", rank)))
		first = append(first, slices.Concat(trace.MicroBatches[:6]...)...)
	}
	round := size * batch
	for rank := range size {
		trace := readTrace(t, filepath.Join(out, fmt.Sprintf("trace-rank%d.json", rank)))
		cut := len(trace.MicroBatches) - (rows+round-1)/round
		first = append(first, slices.Concat(trace.MicroBatches[:cut]...)...)
		second = append(second, slices.Concat(trace.MicroBatches[cut:]...)...)
	}
	for epoch, trained := range [][]int{first, second} {
		slices.Sort(trained)
		once := slices.Compact(slices.Clone(trained))
		if len(once) != rows {
			t.Errorf("epoch %d trains %d rows of %d", epoch, len(once), rows)
		}
		if twice := len(trained) - len(once); twice >= round {
			t.Errorf("epoch %d trains %d rows again, its last round has %d", epoch, twice, round)
		}
	}
}
