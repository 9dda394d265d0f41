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

			request := &trainer.Request{Checkpoint: filepath.Join(out, "checkpoint-4"), OutputDir: out + "2", WorldSize: 2}
			if strings.HasPrefix(name, "rng") { // it can be derived, which is said, or refused
				if s := trainRanks(t, request); !strings.Contains(s.warns.String(), name) || !strings.Contains(s.warns.String(), "is derived from seed") {
					t.Errorf("said %s", s.warns.String())
				}
				request.Strict = true
			}
			_, errs := tryRanks(t, request)
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

// What a resume takes from optimizer.pt cannot be set, and it is said.
func TestOptimizersOwnSettingsStay(t *testing.T) {
	out := t.TempDir()
	s := trainRanks(t, &trainer.Request{
		Checkpoint: testdata("regression-w2", "checkpoint-2"), Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"),
		OutputDir: out, WorldSize: 2, Set: []string{"weight_decay=0.5"},
	})
	if !strings.Contains(s.warns.String(), "weight_decay has no effect on a resumed run") {
		t.Errorf("said %s", s.warns.String())
	}
	m := must[*hf.Manifest](t)(openCheckpoint(t, filepath.Join(out, "checkpoint-4")).Manifest())
	if m.Arguments["weight_decay"] != 0.0 {
		t.Errorf("the manifest says weight_decay %v", m.Arguments["weight_decay"])
	}
}

// Files of two checkpoints in one directory are not resumed from.
func TestMixedCheckpointIsRefused(t *testing.T) {
	for _, name := range []string{"scheduler.pt", "optimizer.pt", "trainer_state.json"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "mixed")
			check(t, os.CopyFS(dir, os.DirFS(testdata("regression-w2", "checkpoint-2"))))
			check(t, os.WriteFile(filepath.Join(dir, name), must[[]byte](t)(os.ReadFile(testdata("regression-w2", "checkpoint-4", name))), 0o666))
			_, errs := tryRanks(t, &trainer.Request{
				Checkpoint: dir, Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"), OutputDir: filepath.Join(t.TempDir(), "out"), WorldSize: 2,
			})
			if said := reports(errs); len(said) != 1 || !strings.Contains(said[0], "the files are of two checkpoints") {
				t.Errorf("said %q", said)
			}
		})
	}
}

func TestClassOutOfRangeNamesTheRow(t *testing.T) {
	rows := strings.SplitAfter(string(must[[]byte](t)(os.ReadFile(testdata("digits.jsonl")))), "\n")
	rows[17] = strings.Replace(rows[17], `"label": `, `"label": 3`, 1)
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	check(t, os.WriteFile(path, []byte(strings.Join(rows, "")), 0o666))
	_, errs := tryRanks(t, &trainer.Request{
		Data: path, Model: testdata("digits-small.yaml"), OutputDir: filepath.Join(t.TempDir(), "out"), WorldSize: 2, Set: []string{"num_train_epochs=1"},
	})
	named := false
	for _, err := range errs {
		var row *trainer.RowError
		named = named || errors.As(err, &row) && row.Row == 17
	}
	if !named {
		t.Errorf("row 17 is not named: %v", errs)
	}
}

// training_args.bin says what the run does, also after a change.
func TestTrainingArgsFollowTheRun(t *testing.T) {
	theirs := testdata("regression-w2", "checkpoint-2")
	request := trainer.Request{Checkpoint: theirs, Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"), WorldSize: 2}
	same, changed := request, request
	same.OutputDir, changed.OutputDir = t.TempDir(), t.TempDir()
	changed.Set = []string{"max_grad_norm=0.5", "max_steps=8"}
	trainRanks(t, &same)
	trainRanks(t, &changed)
	if files(t, theirs)[hf.TrainingArgsFile] != files(t, filepath.Join(same.OutputDir, "checkpoint-6"))[hf.TrainingArgsFile] {
		t.Error("nothing changed, but training_args.bin did")
	}
	args, _, err := openCheckpoint(t, filepath.Join(changed.OutputDir, "checkpoint-8")).TrainingArgs()
	if err != nil || args["max_grad_norm"] != 0.5 || args["max_steps"] != int64(8) || args["learning_rate"] != 0.01 {
		t.Errorf("max_grad_norm %v, max_steps %v, learning_rate %v, %v", args["max_grad_norm"], args["max_steps"], args["learning_rate"], err)
	}
}
