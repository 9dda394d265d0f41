package trainer

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rejoin/ckpt/hf"
)

// soleRank is the group of one.
type soleRank struct{}

func (soleRank) Rank() int                                      { return 0 }
func (soleRank) Size() int                                      { return 1 }
func (soleRank) AllReduceMean(context.Context, []float32) error { return nil }
func (soleRank) AllGather(_ context.Context, mine []byte) ([][]byte, error) {
	return [][]byte{mine}, nil
}

// benchmarkRun is a run of one rank, one step in, on a model of about 12·width² parameters.
func benchmarkRun(b testing.TB, width int, mode string) *run {
	b.Helper()
	dir := b.TempDir()
	spec, rows := "layers:\n", ""
	for i := range 12 {
		spec += fmt.Sprintf("  - {linear: [%d, %d], name: l%d}\n", width, width, i)
	}
	spec += "loss: mse\ninput: x\ntarget: y\n"
	vector := "[0"
	for range width - 1 {
		vector += ",1"
	}
	for range 2 {
		rows += fmt.Sprintf("{\"x\": %s], \"y\": %s]}\n", vector, vector)
	}
	for name, text := range map[string]string{"model.yaml": spec, "data.jsonl": rows} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			b.Fatal(err)
		}
	}
	r := soleRun(b, &Request{
		Data: filepath.Join(dir, "data.jsonl"), Model: filepath.Join(dir, "model.yaml"), OutputDir: filepath.Join(dir, "out"),
		SaveMode: mode, Set: []string{"per_device_train_batch_size=1", "max_steps=1000000", "save_strategy=no", "logging_strategy=no"},
	})
	if err := r.begin(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := r.update(b.Context(), [][]int{{0}}); err != nil {
		b.Fatal(err)
	}
	return r
}

// soleRun is the run of one rank that the request asks for, not begun yet.
func soleRun(tb testing.TB, q *Request) *run {
	tb.Helper()
	q.WorldSize = 1
	job, _, err := Resolve(q)
	if err != nil {
		tb.Fatal(err)
	}
	return newRun(soleRank{}, job, Output{Lines: io.Discard, Warnings: io.Discard}, &Requests{})
}

// How long training stands still for a save: the whole of it, or its snapshot.
func BenchmarkSaveStall(b *testing.B) {
	for _, width := range []int{64, 1024} {
		took := map[string]time.Duration{}
		for _, mode := range []string{SaveSync, SaveAsync} {
			r := benchmarkRun(b, width, mode)
			b.Run(fmt.Sprintf("%d parameters/%s", 12*width*(width+1), mode), func(b *testing.B) {
				var stalled time.Duration
				for b.Loop() {
					begun := time.Now()
					if err := r.startSave(b.Context(), false); err != nil {
						b.Fatal(err)
					}
					stalled += time.Since(begun)
					b.StopTimer()
					if err := r.settleSave(b.Context()); err != nil {
						b.Fatal(err)
					}
					if err := os.RemoveAll(filepath.Join(r.job.OutputDir, hf.DirName(r.pos.Step))); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				took[mode] = stalled / time.Duration(b.N)
				b.ReportMetric(float64(took[mode].Microseconds())/1e3, "ms/stall")
				if mode == SaveAsync && took[SaveSync] > 0 {
					b.ReportMetric(100*float64(took[SaveAsync])/float64(took[SaveSync]), "%-of-sync")
				}
			})
		}
	}
}
