package hf

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// sampleContents is a small but whole checkpoint of two ranks; variant makes
// its values differ.
func sampleContents(step int, variant float32) Contents {
	weights := tensor.NewStateDict()
	weights.Set("fc.weight", tensor.FromFloat32([]float32{1, 2, 3, variant}, 1, 4))
	weights.Set("fc.bias", tensor.FromFloat32([]float32{0.5 * variant}, 1))
	moments := func(n int) *pyobj.Dict {
		values := make([]float32, n)
		for i := range values {
			values[i] = variant / float32(i+1)
		}
		return pyobj.NewDict(
			"step", tensor.FromFloat32([]float32{float32(step)}),
			"exp_avg", tensor.FromFloat32(values, n),
			"exp_avg_sq", tensor.FromFloat32(values, n),
		)
	}
	group := pyobj.NewDict("lr", 0.01, "betas", &pyobj.Tuple{Items: []any{0.9, 0.999}}, "params", &pyobj.List{Items: []any{0, 1}})
	state := NewTrainerState()
	state.Set("global_step", step)
	state.Set("epoch", float64(step)/5)
	state.AppendLog(map[string]any{"loss": float64(variant), "step": step})
	cpu := make([]byte, CPUStateSize)
	cpu[0], cpu[8] = 42, 1
	args := DefaultArguments()
	args.SetWorldSize(2)
	return Contents{
		Step: step, Weights: weights, State: state,
		Optimizer: pyobj.NewDict("state", pyobj.NewDict(0, moments(4), 1, moments(1)), "param_groups", &pyobj.List{Items: []any{group}}),
		Scheduler: pyobj.NewDict("base_lrs", &pyobj.List{Items: []any{0.01}}, "last_epoch", step, "_step_count", step+1),
		RandomStates: []*RandomState{
			NewRandomState(cpu, 42, 42), NewRandomState(cpu, 42, 43),
		},
		TrainingArgs: []byte("arguments as they were"),
		Companions:   map[string][]byte{ModelFile: []byte("loss: mse\n")},
		Manifest:     Manifest{Rejoin: "test", WorldSize: 2, SamplesSeen: int64(8 * step), Arguments: args, Sampler: "seedable"},
	}
}

// save writes contents under dir and fails the test if that does.
func save(t *testing.T, dir string, c Contents, overwrite bool) Outcome {
	t.Helper()
	outcome, err := trySave(t.Context(), &faultDisk{}, dir, c, overwrite)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func trySave(ctx context.Context, d disk, dir string, c Contents, overwrite bool) (outcome Outcome, err error) {
	w, err := begin(d, dir, c.Step)
	if err != nil {
		return Unpublished, err
	}
	defer func() {
		if abortErr := w.Abort(); err == nil {
			err = abortErr
		}
	}()
	w.parallel = 1 // a fixed order, so that faults hit the same call each time
	if err := w.Write(ctx, c); err != nil {
		return Unpublished, err
	}
	return w.Commit(ctx, overwrite)
}

// digestOf is the digest of a whole checkpoint, every byte of it verified.
func digestOf(t *testing.T, dir string) string {
	t.Helper()
	if err := Complete(dir); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir)
	if err := c.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	digest, err := c.Digest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func open(t *testing.T, dir string) *Checkpoint {
	t.Helper()
	c, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// copyOf copies a directory of files into a new place and returns it.
func copyOf(t *testing.T, from string, name string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func readBytes(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeBytes(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}
