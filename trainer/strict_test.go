package trainer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rejoin/trainer"
)

// A random state that is missing or broken is derived, with one warning; under --strict
// all ranks stop together with one message (D17, huggingface/diffusers#2091).
func TestMissingOrBrokenRandomState(t *testing.T) {
	damages := map[string]func(path string) error{
		"missing":     os.Remove,
		"empty":       func(path string) error { return os.Truncate(path, 0) },
		"cut":         func(path string) error { return os.Truncate(path, 5000) },
		"a web page":  func(path string) error { return os.WriteFile(path, []byte("<!DOCTYPE html>"), 0o666) },
		"a directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o777)) },
		"another file": func(path string) error {
			raw, err := os.ReadFile(testdata("regression-w2", "checkpoint-2", "scheduler.pt"))
			return errors.Join(err, os.WriteFile(path, raw, 0o666))
		},
	}
	for damage, apply := range damages {
		for _, strict := range []bool{false, true} {
			name := damage
			if strict {
				name += ", strict"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dir, out := copyDir(t, testdata("regression-w2", "checkpoint-2")), filepath.Join(t.TempDir(), "out")
				check(t, apply(filepath.Join(dir, "rng_state_1.pth")))
				s, errs := tryRanks(t, &trainer.Request{
					Checkpoint: dir, Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"), OutputDir: out, WorldSize: 2, Strict: strict,
				})
				said := reports(errs)
				if strict {
					var refused *trainer.StrictError
					if len(said) != 1 || !strings.Contains(said[0], "rank 1: ") || !strings.Contains(said[0], "rng_state_1.pth") || !errors.As(errs[0], &refused) {
						t.Errorf("said %q", said)
					}
					if _, err := os.Stat(out); err == nil {
						t.Error("something was written")
					}
					return
				}
				warns := s.warns.String()
				if len(said) != 0 || strings.Count(warns, "\n") != 1 || !strings.HasPrefix(warns, "warning: rank 1: ") ||
					!strings.Contains(warns, "rng_state_1.pth") || !strings.Contains(warns, "derived from seed 42, rank 1 and step 2") {
					t.Errorf("failed with %q, warned\n%s", said, warns)
				}
			})
		}
	}
}

// One message for all ranks' warnings, whichever ranks have them.
func TestStrictGathersEveryRanksWarnings(t *testing.T) {
	dir := copyDir(t, testdata("regression-w2", "checkpoint-2"))
	for _, name := range []string{"rng_state_0.pth", "rng_state_1.pth"} {
		check(t, os.Remove(filepath.Join(dir, name)))
	}
	_, errs := tryRanks(t, &trainer.Request{
		Checkpoint: dir, Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"), OutputDir: t.TempDir(), WorldSize: 2, Strict: true,
	})
	said := reports(errs)
	if len(said) != 1 || !strings.Contains(said[0], "rank 0: ") || !strings.Contains(said[0], "rank 1: ") {
		t.Errorf("said %q", said)
	}
}

func TestStrictRefusesWhatResolvingWarnsOf(t *testing.T) {
	skipped := t.TempDir()
	check(t, os.CopyFS(filepath.Join(skipped, "checkpoint-2"), os.DirFS(testdata("regression-w2", "checkpoint-2"))))
	check(t, os.Mkdir(filepath.Join(skipped, "checkpoint-9"), 0o777))
	for name, tc := range map[string]struct {
		checkpoint string
		size       int
		says       string
	}{
		"a skipped checkpoint": {skipped, 2, "checkpoint-9 skipped: "},
		"another world size":   {testdata("regression-w2", "checkpoint-2"), 1, "world size 2 → 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := trainer.Request{
				Checkpoint: tc.checkpoint, Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"), OutputDir: t.TempDir(), WorldSize: tc.size,
			}
			s := trainRanks(t, &r)
			says(t, s, tc.says)
			r.Strict, r.OutputDir = true, filepath.Join(t.TempDir(), "never")
			_, _, err := trainer.Resolve(&r)
			var refused *trainer.StrictError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), tc.says) || !strings.HasPrefix(err.Error(), "--strict: ") {
				t.Errorf("err = %v", err)
			}
		})
	}
	if _, _, err := trainer.Resolve(&trainer.Request{
		Checkpoint: testdata("regression-w2", "checkpoint-2"), Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"),
		OutputDir: t.TempDir(), WorldSize: 2, Strict: true,
	}); err != nil {
		t.Errorf("a resume without warnings: %v", err)
	}
}
