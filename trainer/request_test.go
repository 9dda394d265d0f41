package trainer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rejoin/ckpt/hf"
	"rejoin/trainer"
)

func regressionRequest(out string) *trainer.Request {
	return &trainer.Request{
		Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"), Config: testdata("regression-train.yaml"),
		OutputDir: out, WorldSize: 2,
	}
}

// A bit that flipped after the save is found by the manifest, and a directory
// of checkpoints falls back to the newest that is whole.
func TestFlippedBitIsNotTrainedOn(t *testing.T) {
	for _, name := range []string{"model.safetensors", "optimizer.pt", "rng_state_1.pth"} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			trainRanks(t, regressionRequest(out))
			path := filepath.Join(out, "checkpoint-4", name)
			raw := must[[]byte](t)(os.ReadFile(path))
			raw[len(raw)/2] ^= 4
			check(t, os.WriteFile(path, raw, 0o666))
			check(t, os.RemoveAll(filepath.Join(out, "checkpoint-6")))

			_, errs := tryRanks(t, &trainer.Request{Checkpoint: filepath.Join(out, "checkpoint-4"), OutputDir: out + "2", WorldSize: 2})
			if said := reports(errs); len(said) != 1 || !strings.Contains(said[0], name) || !strings.Contains(said[0], "SHA-256") {
				t.Errorf("said %q", said)
			}
			s := trainRanks(t, &trainer.Request{Checkpoint: out, OutputDir: out + "3", WorldSize: 2})
			if !strings.Contains(s.warns.String(), "checkpoint-4 skipped: ") || !strings.Contains(s.warns.String(), "resuming from "+filepath.Join(out, "checkpoint-2")) {
				t.Errorf("said %s", s.warns.String())
			}
		})
	}
}

// The same arguments from another beginning are another run, and its
// checkpoints are not trained over.
func TestAnotherBeginningIsAnotherRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	trainRanks(t, regressionRequest(out))
	_, errs := tryRanks(t, &trainer.Request{
		Checkpoint: testdata("regression-w2", "checkpoint-2"), Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"), OutputDir: out, WorldSize: 2,
	})
	var later *trainer.LaterCheckpointsError
	if !errors.As(errs[0], &later) || !strings.Contains(later.Error(), "another run") {
		t.Errorf("errs = %v", errs)
	}
	if s := trainRanks(t, regressionRequest(out)); strings.Count(s.lines.String(), "which is kept") != 3 {
		t.Errorf("the same run again: %s", s.lines.String())
	}
}

func TestWhereCheckpointsGo(t *testing.T) {
	t.Run("the checkpoint's parent, also of a dot", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "out")
		trainRanks(t, regressionRequest(out))
		for _, step := range []string{"checkpoint-4", "checkpoint-6"} {
			check(t, os.RemoveAll(filepath.Join(out, step)))
		}
		t.Chdir(filepath.Join(out, "checkpoint-2"))
		trainRanks(t, &trainer.Request{Checkpoint: ".", WorldSize: 2})
		if _, err := os.Stat(filepath.Join(out, "checkpoint-6", hf.ManifestFile)); err != nil {
			t.Error(err)
		}
	})
	for name, make := range map[string]func(t *testing.T) string{
		"a file":       func(*testing.T) string { return testdata("regression.jsonl") },
		"below a file": func(*testing.T) string { return testdata("regression.jsonl", "out") },
		"a read-only directory": func(t *testing.T) string {
			t.Helper()
			if os.Getuid() == 0 {
				t.Skip("root may write anywhere")
			}
			dir := t.TempDir()
			check(t, os.Chmod(dir, 0o555))
			return filepath.Join(dir, "out")
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := trainer.Resolve(regressionRequest(make(t)))
			var refused *trainer.OutputDirError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), "--output-dir") {
				t.Errorf("err = %v", err)
			}
		})
	}
}

// What the Trainer's arguments ask for and Rejoin does otherwise is said.
func TestWhatDiffersIsSaid(t *testing.T) {
	dir := copyDir(t, testdata("regression-w2", "checkpoint-2"))
	path := filepath.Join(dir, hf.TrainingArgsFile)
	args := must[hf.Arguments](t)(hf.DecodeTrainingArgs(must[[]byte](t)(os.ReadFile(path))))
	args["bf16"] = true
	check(t, os.WriteFile(path, must[[]byte](t)(hf.EncodeTrainingArgs(args)), 0o666))
	rows := strings.SplitAfter(string(must[[]byte](t)(os.ReadFile(testdata("regression.jsonl")))), "\n")
	fewer := filepath.Join(t.TempDir(), "fewer.jsonl")
	check(t, os.WriteFile(fewer, []byte(strings.Join(rows[:24], "")), 0o666))

	epochs := &trainer.Request{
		Checkpoint: dir, Data: fewer, Model: testdata("regression.yaml"), OutputDir: t.TempDir(), WorldSize: 2,
	}
	s := trainRanks(t, epochs)
	if said := s.warns.String(); !strings.Contains(said, "bf16: the run computed in bfloat16") {
		t.Errorf("said %s", said)
	}

	args["bf16"], args["max_steps"] = false, int64(-1)
	check(t, os.WriteFile(path, must[[]byte](t)(hf.EncodeTrainingArgs(args)), 0o666))
	epochs.OutputDir = t.TempDir()
	s = trainRanks(t, epochs)
	if said := s.warns.String(); strings.Contains(said, "bf16") || strings.Count(said, "says the run has 6 updates, but this data and these arguments make 9") != 1 {
		t.Errorf("said %s", said)
	}
}

func TestInertArgumentsAreSaidOnce(t *testing.T) {
	request := regressionRequest(t.TempDir())
	request.Set = []string{"report_to=none", "do_train=true", "learning_rate=0.02"}
	s := trainRanks(t, request)
	if said := s.warns.String(); !strings.Contains(said, "no effect here: report_to, do_train\n") {
		t.Errorf("said %q", said)
	}
}
