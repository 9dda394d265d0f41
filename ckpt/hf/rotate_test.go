package hf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runWith makes a run directory with whole checkpoints of the given steps.
func runWith(t *testing.T, name string, steps ...int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	for _, step := range steps {
		save(t, dir, sampleContents(step, 1), false)
	}
	return dir
}

func baseNames(paths []string) (out []string) {
	for _, p := range paths {
		out = append(out, filepath.Base(p))
	}
	return out
}

// Which go depends on steps, the newest written and the best alone
// (D21, huggingface/transformers#26961).
func TestSurplus(t *testing.T) {
	for _, tc := range []struct {
		name           string
		steps          []int
		limit, written int
		best           int // 0: none
		gone           []int
	}{
		{"under the limit", []int{2, 4}, 3, 4, 0, nil},
		{"at the limit", []int{2, 4, 6}, 3, 6, 0, nil},
		{"over it", []int{2, 4, 6, 8}, 2, 8, 0, []int{2, 4}},
		{"by number, not as text", []int{10000, 9900, 9800}, 2, 10000, 0, []int{9800}},
		{"the best stays", []int{2, 4, 6, 8}, 2, 8, 2, []int{4, 6}},
		{"limit 1 with another best keeps two", []int{2, 4, 6}, 1, 6, 2, []int{4}},
		{"the best is the newest", []int{2, 4, 6}, 1, 6, 6, []int{2, 4}},
		{"a limit below 1 is 1", []int{2, 4}, 0, 4, 0, []int{2}},
		{"what was written stays below later ones", []int{4, 6, 8}, 1, 4, 0, []int{6, 8}},
		{"later ones count by step", []int{2, 4, 6, 8}, 2, 4, 0, []int{2, 6}},
		{"only one", []int{4}, 1, 4, 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var whole []Found
			for _, step := range tc.steps {
				whole = append(whole, Found{Step: step})
			}
			var gone []int
			for _, f := range surplus(whole, tc.limit, tc.written, func(f Found) bool { return f.Step == tc.best }) {
				gone = append(gone, f.Step)
			}
			if !slices.Equal(gone, tc.gone) {
				t.Errorf("gone: %v, want %v", gone, tc.gone)
			}
		})
	}
}

// The newest checkpoint has the oldest time, or all times are equal (a copy, a file
// server's clock): the order is that of steps (D21, huggingface/transformers#26961).
func TestRotationDoesNotLookAtTimes(t *testing.T) {
	long := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, timeOf := range map[string]func(i int) time.Time{
		"newest is oldest": func(i int) time.Time { return long.Add(-time.Duration(i) * time.Hour) },
		"all equal":        func(int) time.Time { return long },
	} {
		t.Run(name, func(t *testing.T) {
			steps := []int{200, 400, 600, 800, 1000, 9900, 10000}
			dir := runWith(t, "run", steps...)
			for i, step := range steps {
				if err := os.Chtimes(filepath.Join(dir, DirName(step)), timeOf(i), timeOf(i)); err != nil {
					t.Fatal(err)
				}
			}
			got := Rotate(dir, Rotation{Limit: 3, Written: 10000})
			if want := []string{"checkpoint-200", "checkpoint-400", "checkpoint-600", "checkpoint-800"}; !slices.Equal(baseNames(got.Removed), want) || got.Left != nil {
				t.Errorf("rotated %+v, want %v removed", got, want)
			}
			if left := dirNames(t, dir); !slices.Equal(left, []string{"checkpoint-1000", "checkpoint-10000", "checkpoint-9900"}) {
				t.Errorf("the directory holds %v", left)
			}
		})
	}
}

// What is not a whole checkpoint of this run is neither touched nor counted.
func TestRotationLeavesForeignDirectories(t *testing.T) {
	dir := runWith(t, "läufe und mehr", 2, 4, 6, 8)
	elsewhere := runWith(t, "elsewhere", 3, 5)
	for _, err := range []error{
		os.Remove(filepath.Join(dir, "checkpoint-4", StateFile)),             // incomplete
		os.Mkdir(filepath.Join(dir, "checkpoint-1"), 0o777),                  // empty
		os.WriteFile(filepath.Join(dir, "checkpoint-7"), []byte("x"), 0o666), // a file
		os.Symlink(filepath.Join(elsewhere, "checkpoint-3"), filepath.Join(dir, "checkpoint-3")),
		os.Symlink("gone", filepath.Join(dir, "checkpoint-9")),
		os.Mkdir(filepath.Join(dir, "checkpoint-2-kept"), 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := Rotate(dir, Rotation{Limit: 1, Written: 8})
	if want := []string{"checkpoint-2", "checkpoint-6"}; !slices.Equal(baseNames(got.Removed), want) {
		t.Errorf("removed %v, want %v", baseNames(got.Removed), want)
	}
	reasons := map[string]string{
		"checkpoint-9": "symbolic link", "checkpoint-7": "not a directory", "checkpoint-4": "is missing", "checkpoint-3": "symbolic link", "checkpoint-1": "empty",
	}
	for _, l := range got.Left {
		base := filepath.Base(l.Path)
		if want, ok := reasons[base]; !ok || !strings.Contains(l.String(), want) || !strings.Contains(l.String(), " is left: ") {
			t.Errorf("said %q", l)
		}
		delete(reasons, base)
	}
	if len(reasons) > 0 {
		t.Errorf("nothing was said of %v", reasons)
	}
	want := []string{"checkpoint-1", "checkpoint-2-kept", "checkpoint-3", "checkpoint-4", "checkpoint-7", "checkpoint-8", "checkpoint-9"}
	if left := dirNames(t, dir); !slices.Equal(left, want) {
		t.Errorf("the directory holds %v, want %v", left, want)
	}
	if left := dirNames(t, elsewhere); len(left) != 2 {
		t.Errorf("behind the link: %v", left)
	}
}

func TestRotationThroughLinks(t *testing.T) {
	dir := runWith(t, "run", 2, 4, 6)
	if err := os.Symlink("checkpoint-2", filepath.Join(dir, "checkpoint-99")); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	got := Rotate(link, Rotation{Limit: 1, Written: 6})
	if !slices.Equal(baseNames(got.Removed), []string{"checkpoint-4"}) || len(got.Left) != 2 {
		t.Errorf("rotated %+v", got)
	}
}

// Nothing goes before the newest is known to be whole
// (D21, huggingface/transformers#26961).
func TestRotationVerifiesBeforeItRemoves(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"cut":     func(dir string) error { return os.Truncate(filepath.Join(dir, "checkpoint-6", OptimizerFile), 700) },
		"missing": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "checkpoint-6")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := runWith(t, "run", 2, 4, 6)
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			before := dirNames(t, dir)
			got := Rotate(dir, Rotation{Limit: 1, Written: 6})
			if got.Removed != nil || len(got.Left) != 1 || !errors.Is(got.Left[0].Reason, errNotProven) {
				t.Errorf("rotated %+v", got)
			}
			if after := dirNames(t, dir); !slices.Equal(after, before) {
				t.Errorf("the directory holds %v, before %v", after, before)
			}
		})
	}
}

// The best one is found by where it is, by its name in a moved run, or not at all
// (D22, huggingface/transformers#48315).
func TestFindBest(t *testing.T) {
	dir, other := runWith(t, "моя run", 2, 4), runWith(t, "other", 4, 7)
	for _, tc := range []struct{ stored, want string }{
		{"", ""},
		{filepath.Join(dir, "checkpoint-2"), filepath.Join(dir, "checkpoint-2")},
		{filepath.Join(other, "checkpoint-7"), filepath.Join(other, "checkpoint-7")},
		{"/moved away/run/checkpoint-4", filepath.Join(dir, "checkpoint-4")},
		{"gone/checkpoint-9", ""},
		{"/gone/best-model", ""},
		{"/", ""},
	} {
		if got := FindBest(tc.stored, "no such directory", dir); got != tc.want {
			t.Errorf("%q → %q, want %q", tc.stored, got, tc.want)
		}
	}
	if got := Rotate(dir, Rotation{Limit: 1, Written: 4, Best: "/moved away/run/checkpoint-2"}); got.Removed != nil {
		t.Errorf("the best of a moved run: %+v", got)
	}
	// Another run's checkpoint of the same name protects nothing here.
	if got := Rotate(dir, Rotation{Limit: 1, Written: 4, Best: filepath.Join(other, "checkpoint-7")}); !slices.Equal(baseNames(got.Removed), []string{"checkpoint-2"}) {
		t.Errorf("the best elsewhere: %+v", got)
	}
}

// A directory that may not be written to: said, and nothing else.
func TestRotationInAReadOnlyDirectory(t *testing.T) {
	dir := runWith(t, "run", 2, 4)
	for _, errno := range []syscall.Errno{syscall.EACCES, syscall.EROFS} {
		d := &faultDisk{failAt: 1, err: &os.LinkError{Op: "rename", Old: "a", New: "b", Err: errno}}
		got := rotate(d, dir, Rotation{Limit: 1, Written: 4})
		d.exit()
		if got.Removed != nil || len(got.Left) != 1 || got.Left[0].String() != fmt.Sprintf("%s is left: it cannot be removed: %v", filepath.Join(dir, "checkpoint-2"), errno) {
			t.Errorf("%v: rotated %+v", errno, got)
		}
		if Complete(filepath.Join(dir, "checkpoint-2")) != nil {
			t.Error("the checkpoint is not whole any more")
		}
	}
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	if got := Rotate(dir, Rotation{Limit: 1, Written: 4}); got.Removed != nil || len(got.Left) != 1 {
		t.Errorf("rotated %+v", got)
	}
}

// A rotation that dies at any call leaves whole checkpoints under their names,
// and what it had begun to remove, Recover removes.
func TestRotationThatDies(t *testing.T) {
	before := runWith(t, "run", 2, 4, 6)
	for at := 1; ; at++ {
		dir := copyOf(t, before, "run")
		d := &faultDisk{failAt: at, err: errKilled, kill: true}
		got := rotate(d, dir, Rotation{Limit: 1, Written: 6})
		d.exit()
		if at > len(d.calls) {
			if !slices.Equal(baseNames(got.Removed), []string{"checkpoint-2", "checkpoint-4"}) || at < 6 {
				t.Errorf("without a fault: %+v in %d calls", got, at-1)
			}
			return
		}
		if _, err := Recover(dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range dirNames(t, dir) {
			if err := Complete(filepath.Join(dir, name)); err != nil {
				t.Errorf("%s: %v", d.calls[at-1], err)
			}
		}
		if path, _, err := Latest(dir); err != nil || filepath.Base(path) != "checkpoint-6" {
			t.Errorf("%s: Latest = %s, %v", d.calls[at-1], path, err)
		}
	}
}

func TestRecoverEndsARemoval(t *testing.T) {
	dir := runWith(t, "run", 2, 4)
	hidden := filepath.Join(dir, ".removed-checkpoint-2-0123abcd")
	if err := os.Rename(filepath.Join(dir, "checkpoint-2"), hidden); err != nil {
		t.Fatal(err)
	}
	_, skipped, err := Latest(dir)
	if err != nil || len(skipped) != 0 {
		t.Errorf("Latest skipped %v, %v", skipped, err)
	}
	done, err := Recover(dir)
	if err != nil || !slices.Equal(done, []string{hidden + ": removed, as its removal was interrupted"}) {
		t.Errorf("Recover = %q, %v", done, err)
	}
	if left := dirNames(t, dir); !slices.Equal(left, []string{"checkpoint-4"}) {
		t.Errorf("the directory holds %v", left)
	}
}

func ExampleRotate() {
	rotated := Rotate("out", Rotation{Limit: 2, Written: 500, Best: "out/checkpoint-300"})
	for _, path := range rotated.Removed {
		fmt.Println(path, "removed")
	}
	for _, left := range rotated.Left {
		fmt.Println("warning:", left)
	}
	// Output: warning: out/checkpoint-500 is left: older checkpoints stay, as the newest is not whole: out/checkpoint-500 is not a checkpoint: there is no such directory; give a checkpoint-N directory, or a directory that holds some
}
