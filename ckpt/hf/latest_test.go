package hf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// makeRun builds a run directory as interrupted runs leave it.
func makeRun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run é")
	for _, step := range []int{8, 9, 10, 12} {
		save(t, dir, sampleContents(step, 1), false)
	}
	for _, change := range []error{
		os.Remove(filepath.Join(dir, "checkpoint-10", StateFile)),
		os.Truncate(filepath.Join(dir, "checkpoint-12", OptimizerFile), 700),
		os.Mkdir(filepath.Join(dir, "checkpoint-30"), 0o777),
		os.Mkdir(filepath.Join(dir, "tmp-checkpoint-40"), 0o777),
		os.Mkdir(filepath.Join(dir, ".tmp-checkpoint-41-0123abcd"), 0o777),
		os.Mkdir(filepath.Join(dir, ".displaced-checkpoint-42-0123abcd"), 0o777),
		os.WriteFile(filepath.Join(dir, "checkpoint-50"), []byte("x"), 0o666),
		os.Mkdir(filepath.Join(dir, "checkpoint-60-best"), 0o777),
		os.Mkdir(filepath.Join(dir, "logs"), 0o777),
	} {
		if change != nil {
			t.Fatal(change)
		}
	}
	return dir
}

// The newest complete checkpoint is taken, by number, and each that is passed over has
// its reason, in a line (D20, huggingface/transformers#35782).
func TestLatest(t *testing.T) {
	dir := makeRun(t)
	path, skipped, err := Latest(dir)
	if err != nil || path != filepath.Join(dir, "checkpoint-9") {
		t.Fatalf("Latest = %s, %v", path, err)
	}
	want := []struct{ name, reason string }{
		{"checkpoint-50", "not a directory"},
		{".displaced-checkpoint-42-0123abcd", "overwrite that was interrupted"},
		{".tmp-checkpoint-41-0123abcd", "unfinished save"},
		{"tmp-checkpoint-40", "unfinished save"},
		{"checkpoint-30", "the directory is empty"},
		{"checkpoint-12", OptimizerFile + " does not match"},
		{"checkpoint-10", StateFile + " is missing"},
	}
	if len(skipped) != len(want) {
		t.Fatalf("skipped %v", skipped)
	}
	for i, w := range want {
		if filepath.Base(skipped[i].Path) != w.name || !strings.Contains(skipped[i].String(), w.reason) {
			t.Errorf("skipped %v, want %s: … %s", skipped[i], w.name, w.reason)
		}
		if strings.Contains(skipped[i].String(), "\n") {
			t.Errorf("the reason takes more than a line: %v", skipped[i])
		}
	}
}

// A checkpoint of the Trainer's, which has no manifest, is complete only if all its
// files are whole (D20, huggingface/transformers#35782).
func TestLatestWithoutManifests(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(dir string) error
		reason string
	}{
		{"no scheduler", func(d string) error { return os.Remove(filepath.Join(d, SchedulerFile)) }, SchedulerFile + " is missing"},
		{"no weights", func(d string) error { return os.Remove(filepath.Join(d, SafeWeightsFile)) }, SafeWeightsFile + " is missing"},
		{"empty optimizer", func(d string) error { return os.Truncate(filepath.Join(d, OptimizerFile), 0) }, OptimizerFile + " is empty"},
		{"cut optimizer", func(d string) error { return os.Truncate(filepath.Join(d, OptimizerFile), 1000) }, OptimizerFile + " is damaged"},
		{"cut weights", func(d string) error { return os.Truncate(filepath.Join(d, SafeWeightsFile), 200) }, SafeWeightsFile + " is damaged"},
		{"cut state", func(d string) error { return os.Truncate(filepath.Join(d, StateFile), 100) }, StateFile + " is damaged"},
		{"another step", func(d string) error { return os.Rename(d, filepath.Join(filepath.Dir(d), "checkpoint-7")) }, "global_step 7 expected from the directory's name, found 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Dir(copyOf(t, "testdata/regression-w2/checkpoint-2", "checkpoint-2"))
			if path, skipped, err := Latest(dir); err != nil || len(skipped) > 0 || filepath.Base(path) != "checkpoint-2" {
				t.Fatalf("before: %s, %v, %v", path, skipped, err)
			}
			if err := c.change(filepath.Join(dir, "checkpoint-2")); err != nil {
				t.Fatal(err)
			}
			_, skipped, err := Latest(dir)
			none := (*NoCheckpointError)(nil)
			if !errors.As(err, &none) || len(skipped) != 1 || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("after: %v, %v, want … %s", skipped, err, c.reason)
			}
			if file := (*FileError)(nil); len(skipped) == 1 && (!errors.As(skipped[0].Reason, &file) || file.Next == "") {
				t.Errorf("%v gives no next step", skipped[0].Reason)
			}
		})
	}
}

func TestLatestOfNothing(t *testing.T) {
	empty := t.TempDir()
	if _, _, err := Latest(empty); err == nil || !strings.Contains(err.Error(), "expected directories named checkpoint-N") {
		t.Errorf("an empty directory: %v", err)
	}
	missing := (*NotCheckpointError)(nil)
	if _, _, err := Latest(filepath.Join(empty, "none")); !errors.As(err, &missing) {
		t.Errorf("no directory: %v", err)
	}
	file := filepath.Join(empty, "file")
	writeBytes(t, file, []byte("x"))
	if _, _, err := Latest(file); err == nil {
		t.Error("a file was taken for a directory")
	}
}

// Steps are numbers: 10000 comes after 9900 (D21, huggingface/transformers#26961).
func TestLatestGoesByNumber(t *testing.T) {
	dir := t.TempDir()
	for _, step := range []int{10000, 9900, 99} {
		save(t, dir, sampleContents(step, 1), false)
	}
	if path, _, err := Latest(dir); err != nil || filepath.Base(path) != "checkpoint-10000" {
		t.Errorf("Latest = %s, %v", path, err)
	}
}

func TestList(t *testing.T) {
	found, err := List(makeRun(t))
	if err != nil {
		t.Fatal(err)
	}
	steps := []int{}
	for _, f := range found {
		steps = append(steps, f.Step)
	}
	if !slices.Equal(steps, []int{8, 9, 10, 12, 30}) {
		t.Errorf("List = %v", found)
	}
	if found, err := List(filepath.Join(t.TempDir(), "none")); found != nil || err != nil {
		t.Errorf("List of nothing = %v, %v", found, err)
	}
}
