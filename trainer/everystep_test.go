package trainer_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"rejoin/trainer"
)

// N steps straight against k steps, a resume, and the other N−k, for every k and 1, 2
// and 4 ranks, over epochs and accumulation with a short last group: every file of the
// last checkpoint, and the rows and losses of every micro-batch
// (D16, huggingface/transformers#5605).
func TestEveryStepResumed(t *testing.T) {
	const last = 9 // two epochs of four updates, and one more
	for _, size := range []int{1, 2, 4} {
		t.Run(fmt.Sprintf("%d ranks", size), func(t *testing.T) {
			t.Parallel()
			straight := t.TempDir()
			trainRanks(t, &trainer.Request{
				Data: testdata("digits.jsonl"), Model: testdata("digits-small.yaml"), OutputDir: straight, WorldSize: size, Trace: true,
				Set: []string{
					fmt.Sprintf("per_device_train_batch_size=%d", 28/size), "gradient_accumulation_steps=3", fmt.Sprintf("max_steps=%d", last),
					"save_steps=1", "logging_steps=2", "lr_scheduler_type=cosine", "warmup_steps=2", "weight_decay=0.01", "learning_rate=0.003",
				},
			})
			for k := 1; k < last; k++ {
				again := t.TempDir()
				trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(straight, checkpointDir(k)), OutputDir: again, WorldSize: size, Trace: true})
				for step := k + 1; step <= last; step++ {
					sameFiles(t, filepath.Join(again, checkpointDir(step)), filepath.Join(straight, checkpointDir(step)))
				}
				sameTail(t, straight, again, size)
			}
		})
	}
}

// sameTail wants a resumed run's trace to be the end of the straight run's.
func sameTail(t *testing.T, straight, again string, size int) {
	t.Helper()
	for rank := range size {
		name := fmt.Sprintf("trace-rank%d.json", rank)
		whole, tail := readTrace(t, filepath.Join(straight, name)), readTrace(t, filepath.Join(again, name))
		from := len(whole.MicroBatches) - len(tail.MicroBatches)
		if len(tail.MicroBatches) == 0 || from <= 0 {
			t.Fatalf("rank %d: %d micro-batches resumed of %d", rank, len(tail.MicroBatches), len(whole.MicroBatches))
		}
		for i, rows := range tail.MicroBatches {
			if fmt.Sprint(rows) != fmt.Sprint(whole.MicroBatches[from+i]) || tail.Losses[i] != whole.Losses[from+i] {
				t.Fatalf("rank %d, micro-batch %d: rows %v, loss %v; straight %v, %v", rank, from+i, rows, tail.Losses[i], whole.MicroBatches[from+i], whole.Losses[from+i])
			}
		}
	}
}
