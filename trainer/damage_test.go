package trainer_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/trainer"
)

// reports is what the ranks print about a failed run, as a worker's main does.
func reports(errs []error) []string {
	var out []string
	for rank, err := range errs {
		var agreed *trainer.RankError
		switch {
		case err == nil:
		case errors.As(err, &agreed):
			if text := agreed.Report(rank); text != "" {
				out = append(out, text)
			}
		default:
			out = append(out, "error: "+err.Error())
		}
	}
	return out
}

// Whatever is wrong with a file, one rank says so once, naming the file, and nothing is
// written (D03, sml2h3/dddd_trainer#36).
func TestDamagedFileGivesOneErrorAndWritesNothing(t *testing.T) {
	intact := testdata("regression-w2", "checkpoint-2")
	damages := map[string]func(path string) error{
		"missing": os.Remove,
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"cut": func(path string) error {
			info, err := os.Stat(path)
			return errors.Join(err, os.Truncate(path, info.Size()/2))
		},
		"of another kind": func(path string) error {
			return os.WriteFile(path, []byte("<!DOCTYPE html><title>404</title>"), 0o666)
		},
		"a directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o777)) },
	}
	for _, name := range []string{"model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json", "training_args.bin"} {
		for damage, apply := range damages {
			if damage == "missing" && name == "training_args.bin" {
				continue // can be done without, with a warning
			}
			t.Run(name+" "+damage, func(t *testing.T) {
				t.Parallel()
				dir, out := copyDir(t, intact), filepath.Join(t.TempDir(), "out")
				check(t, apply(filepath.Join(dir, name)))
				_, errs := tryRanks(t, &trainer.Request{
					Checkpoint: dir, Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"), OutputDir: out, WorldSize: 2,
				})
				said := reports(errs)
				if len(said) != 1 || !strings.Contains(said[0], name) {
					t.Errorf("said %q, want one error that names %s", said, name)
				}
				if _, err := os.Stat(out); err == nil {
					t.Error("something was written")
				}
			})
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A checkpoint that does not fit what it is resumed with is refused, with both
// sides shown.
func TestMismatchIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		run, model, data string
		says             []string
	}{
		"another architecture": {
			"regression-w2/checkpoint-2", "digits-mlp.yaml", "digits.jsonl",
			[]string{"missing (4): backbone.0.weight", "unexpected (2): fc.bias, fc.weight"},
		},
		"another width": {
			"digits-mlp-w2/checkpoint-4", "digits-small.yaml", "digits.jsonl",
			[]string{"backbone.0.weight", "[16 64]", "[32 64]", "backbone.2.weight"},
		},
		"data of another model": {
			"regression-w2/checkpoint-2", "regression.yaml", "digits.jsonl",
			[]string{`"x"`, "[64]", "10 numbers"},
		},
		"no such column": {"digits-w1/checkpoint-3", "regression.yaml", "digits.jsonl", []string{`"x"`}},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			_, errs := tryRanks(t, &trainer.Request{
				Checkpoint: testdata(strings.Split(tc.run, "/")...), Data: testdata(tc.data), Model: testdata(tc.model), OutputDir: out, WorldSize: 2,
			})
			said := reports(errs)
			if len(said) != 1 {
				t.Fatalf("said %q, want one error", said)
			}
			for _, part := range tc.says {
				if !strings.Contains(said[0], part) {
					t.Errorf("said %q, want %s in it", said[0], part)
				}
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("something was written")
			}
		})
	}
}

func TestChangedDataIsRefused(t *testing.T) {
	dir := t.TempDir()
	rows := must[[]byte](t)(os.ReadFile(testdata("regression.jsonl")))
	path := filepath.Join(dir, "rows.jsonl")
	check(t, os.WriteFile(path, rows, 0o666))
	request := trainer.Request{
		Data: path, Model: testdata("regression.yaml"), Config: testdata("regression-train.yaml"), OutputDir: filepath.Join(dir, "out"), WorldSize: 2,
	}
	trainRanks(t, &request)
	check(t, os.WriteFile(path, slices.Concat(rows, rows[:strings.IndexByte(string(rows), '\n')+1]), 0o666))
	_, errs := tryRanks(t, &trainer.Request{Checkpoint: filepath.Join(dir, "out", "checkpoint-2"), WorldSize: 2})
	if said := reports(errs); len(said) != 1 || !strings.Contains(said[0], "not what the checkpoint was trained on") {
		t.Errorf("said %q", said)
	}
}

// A rank that sees another checkpoint than the rest is named, by all.
func TestRankWithOtherFilesIsNamed(t *testing.T) {
	err := disagree(t, 3, 1)
	for rank, e := range err {
		var differ *trainer.DisagreementError
		if !errors.As(e, &differ) || !slices.Equal(differ.Ranks, []string{"1"}) {
			t.Errorf("rank %d: %v, want one that names rank 1", rank, e)
		}
	}
}

// Later checkpoints of another run are not trained over.
func TestLaterCheckpointsAreRefusedBeforeTraining(t *testing.T) {
	request := func(dir string, set ...string) *trainer.Request {
		return &trainer.Request{
			Checkpoint: filepath.Join(dir, "checkpoint-2"), Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"), Set: set, WorldSize: 2,
		}
	}
	theirs := t.TempDir()
	for _, name := range []string{"checkpoint-2", "checkpoint-4"} {
		check(t, os.CopyFS(filepath.Join(theirs, name), os.DirFS(testdata("regression-w2", name))))
	}
	before := files(t, filepath.Join(theirs, "checkpoint-4"))
	_, errs := tryRanks(t, request(theirs))
	var later *trainer.LaterCheckpointsError
	if len(errs) != 1 || !errors.As(errs[0], &later) || !strings.Contains(later.Error(), "--overwrite") {
		t.Fatalf("errs = %v", errs)
	}
	if after := files(t, filepath.Join(theirs, "checkpoint-4")); !equalFiles(before, after) {
		t.Error("the refused run changed checkpoint-4")
	}
	overwrite := request(theirs)
	overwrite.Overwrite = true
	if s := trainRanks(t, overwrite); !strings.Contains(s.lines.String(), "in place of a different one") {
		t.Errorf("said %s", s.lines.String())
	}
	if s := trainRanks(t, request(theirs)); !strings.Contains(s.lines.String(), "which is kept") {
		t.Errorf("an identical later checkpoint: said %s", s.lines.String())
	}
	_, errs = tryRanks(t, request(theirs, "max_grad_norm=0.5"))
	if !errors.As(errs[0], &later) || !strings.Contains(later.Error(), "max_grad_norm: 1 → 0.5") {
		t.Errorf("with another argument: %v", errs)
	}
}

func equalFiles(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, text := range a {
		if b[name] != text {
			return false
		}
	}
	return true
}
