package trainer

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"testing"
)

// What Adam keeps for each parameter, in bytes.
const (
	replicaBytes  = 16 // value, gradient, two moments
	snapshotBytes = 12 // without the gradient
)

// allocated is how many bytes of heap f takes, those given back included: no
// garbage collector can make its peak higher than that.
func allocated(tb testing.TB, f func() error) float64 {
	tb.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := f()
	runtime.ReadMemStats(&after)
	if err != nil {
		tb.Fatal(err)
	}
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// savedRun saves a checkpoint and gives the run and what asks for a resume of it.
func savedRun(tb testing.TB, width int) (*run, *Request) {
	tb.Helper()
	r := benchmarkRun(tb, width, SaveSync)
	if err := r.startSave(tb.Context(), false); err != nil {
		tb.Fatal(err)
	}
	return r, &Request{
		Checkpoint: r.checkpointPath(), OutputDir: tb.TempDir(), Data: r.job.Data,
		Set: []string{"save_strategy=no"},
	}
}

// A rank that resumes takes the memory of the replica that it will train, and
// none beside it that grows with the checkpoint (D24, deepspeedai/DeepSpeed#1956).
// The mapped files' pages are the host's, however many ranks it has.
func TestResumeTakesOneReplica(t *testing.T) {
	const rest = 6 << 20 // data, manifest, buffers to hash files with: the same for any model
	saved, q := savedRun(t, 512)
	r := soleRun(t, q)
	took := allocated(t, func() error { return r.begin(t.Context()) })
	replica := float64(replicaBytes * saved.parameters())
	t.Logf("%.1f MB for a replica of %.1f MB", took/1e6, replica/1e6)
	if took < replica || took > 1.02*replica+rest {
		t.Errorf("resuming took %.1f MB, expected the replica's %.1f MB and at most %.1f MB more", took/1e6, replica/1e6, (0.02*replica+rest)/1e6)
	}
	if r.pos.Step != saved.pos.Step || r.parameters() != saved.parameters() {
		t.Errorf("resumed at step %d with %d parameters", r.pos.Step, r.parameters())
	}
}

// A save takes one snapshot, which a script's dict beside it shares, and a later
// save finds the memory of the one before given back (D24, deepspeedai/DeepSpeed#1956).
func TestSaveTakesOneSnapshot(t *testing.T) {
	const rest = 8 << 20 // buffers to write and to hash with, and the scheduler's and the random state
	r := benchmarkRun(t, 512, SaveAsync)
	r.job.AlsoDict = true
	r.pos.Batch = 0 // where a script's dict is written
	snapshot := float64(snapshotBytes * r.parameters())
	took := allocated(t, func() error { return r.startSave(t.Context(), false) })
	if took < snapshot || took > 1.02*snapshot+rest {
		t.Errorf("a save took %.1f MB, expected the snapshot's %.1f MB and at most %.1f MB more", took/1e6, snapshot/1e6, (0.02*snapshot+rest)/1e6)
	}
	if err := r.settleSave(t.Context()); err != nil {
		t.Fatal(err)
	}
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	replica := float64(replicaBytes * r.parameters())
	if held := float64(after.HeapAlloc); held > replica+snapshot/2+rest {
		t.Errorf("%.1f MB are held after the save, expected the replica's %.1f MB", held/1e6, replica/1e6)
	}
	if got, err := filepath.Glob(filepath.Join(r.job.OutputDir, "*.pth")); err != nil || len(got) != 1 {
		t.Errorf("the script's dict: %v, %v", got, err)
	}
}

// A save for which training waits takes no snapshot (D24, deepspeedai/DeepSpeed#1956).
func TestSynchronousSaveTakesNoSnapshot(t *testing.T) {
	const rest = 8 << 20 // as above
	r := benchmarkRun(t, 1024, SaveSync)
	if took := allocated(t, func() error { return r.startSave(t.Context(), false) }); took > rest {
		t.Errorf("a save took %.1f MB of %.1f MB to save, expected at most %.1f MB", took/1e6, float64(snapshotBytes*r.parameters())/1e6, rest/1e6)
	}
}

// What a resume takes beside the replica, by the size of the model.
func BenchmarkResumeMemory(b *testing.B) {
	for _, width := range []int{256, 1024} {
		saved, q := savedRun(b, width)
		replica := float64(replicaBytes * saved.parameters())
		b.Run(fmt.Sprintf("%d parameters", saved.parameters()), func(b *testing.B) {
			least := math.Inf(1)
			for b.Loop() {
				r := soleRun(b, q)
				least = min(least, allocated(b, func() error { return r.begin(b.Context()) }))
			}
			b.ReportMetric(least/replica, "replicas")
			b.ReportMetric((least-replica)/1e6, "MB-beside")
		})
	}
}
