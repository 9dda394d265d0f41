package hf

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestSaveAndRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run with spaces", "é")
	c := sampleContents(4, 1)
	if outcome := save(t, dir, c, false); outcome != Saved {
		t.Errorf("outcome is %v", outcome)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "checkpoint-4" {
		t.Fatalf("the run directory holds %v, %v", entries, err)
	}
	back := open(t, filepath.Join(dir, "checkpoint-4"))
	if err := back.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	m, err := back.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(back.Dir())
	if err != nil || len(files) != len(m.Files)+1 {
		t.Errorf("the manifest lists %d files, the directory holds %v", len(m.Files), files)
	}
	want := c.Manifest
	want.Step, want.Files, want.Extra = 4, m.Files, map[string]any{}
	if !reflect.DeepEqual(*m, want) {
		t.Errorf("manifest is %+v, want %+v", *m, want)
	}
	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	plain := filepath.Join(dir, "plain")
	if err := os.Mkdir(plain, 0o777); err != nil {
		t.Fatal(err)
	}
	if got, want := mode(back.Dir()), mode(plain); got != want {
		t.Errorf("the checkpoint's mode is %v, other directories have %v", got, want)
	}
}

// What was read and is written again is the same bytes, whatever wrote it first.
func TestRewrittenIsTheSame(t *testing.T) {
	first := t.TempDir()
	save(t, first, sampleContents(4, 1), false)
	c := open(t, filepath.Join(first, "checkpoint-4"))
	second := t.TempDir()
	save(t, second, contentsOf(t, c, 2), false)
	for _, entry := range dirNames(t, c.Dir()) {
		a, b := readBytes(t, filepath.Join(c.Dir(), entry)), readBytes(t, filepath.Join(second, "checkpoint-4", entry))
		if string(a) != string(b) {
			t.Errorf("%s differs: %d and %d bytes", entry, len(a), len(b))
		}
	}
}

func dirNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// contentsOf reads all of a checkpoint.
func contentsOf(t *testing.T, c *Checkpoint, worldSize int) Contents {
	t.Helper()
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	out := Contents{Step: c.Step()}
	var err error
	out.Weights, err = c.Weights()
	note(err)
	out.Optimizer, err = c.Optimizer()
	note(err)
	out.Scheduler, err = c.Scheduler()
	note(err)
	out.State, err = c.State()
	note(err)
	out.TrainingArgs, _, err = c.TrainingArgsBytes()
	note(err)
	out.Companions, err = c.Companions()
	note(err)
	m, err := c.Manifest()
	note(err)
	if m != nil {
		out.Manifest = *m
	}
	for rank := range worldSize {
		r, err := c.RandomState(rank, worldSize)
		note(err)
		out.RandomStates = append(out.RandomStates, r)
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCommitOverAnother(t *testing.T) {
	for _, c := range []struct {
		name      string
		variant   float32 // of the second save; the first has 1
		overwrite bool
		disk      *faultDisk
		outcome   Outcome
		differs   []string
		left      float32
	}{
		{"identical", 1, false, &faultDisk{}, Kept, nil, 1},
		{"identical, overwrite", 1, true, &faultDisk{}, Kept, nil, 1},
		{"different", 2, false, &faultDisk{}, Unpublished, []string{SafeWeightsFile, OptimizerFile, StateFile, ManifestFile}, 1},
		{"different, overwrite", 2, true, &faultDisk{}, Replaced, nil, 2},
		{"no exchange", 2, true, &faultDisk{noExchange: true}, Replaced, nil, 2},
		{"no exchange, no locks", 2, true, &faultDisk{noExchange: true, noLock: true}, Replaced, nil, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			save(t, dir, sampleContents(4, 1), false)
			outcome, err := trySave(t.Context(), c.disk, dir, sampleContents(4, c.variant), c.overwrite)
			if outcome != c.outcome {
				t.Errorf("outcome is %v, want %v (%v)", outcome, c.outcome, err)
			}
			if exists := (*ExistsError)(nil); errors.As(err, &exists) {
				if want := slices.Sorted(slices.Values(c.differs)); !slices.Equal(slices.Sorted(slices.Values(exists.Differs)), want) {
					t.Errorf("differs in %v, want %v", exists.Differs, want)
				}
			} else if err != nil || c.differs != nil {
				t.Errorf("error is %v", err)
			}
			if got, want := digestOf(t, filepath.Join(dir, "checkpoint-4")), digestOfSample(t, c.left); got != want {
				t.Error("the checkpoint under the final name is not the one expected")
			}
			if names := dirNames(t, dir); !slices.Equal(names, []string{"checkpoint-4"}) {
				t.Errorf("the run directory holds %v", names)
			}
		})
	}
}

func digestOfSample(t *testing.T, variant float32) string {
	t.Helper()
	dir := t.TempDir()
	save(t, dir, sampleContents(4, variant), false)
	return digestOf(t, filepath.Join(dir, "checkpoint-4"))
}

func TestCommitAgainAfterRefusal(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, sampleContents(4, 1), false)
	w, err := Begin(dir, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Write(t.Context(), sampleContents(4, 2)); err != nil {
		t.Fatal(err)
	}
	exists := (*ExistsError)(nil)
	if _, err := w.Commit(t.Context(), false); !errors.As(err, &exists) {
		t.Fatalf("first commit: %v", err)
	}
	if outcome, err := w.Commit(t.Context(), true); outcome != Replaced || err != nil {
		t.Fatalf("second commit: %v, %v", outcome, err)
	}
	if _, err := w.Commit(t.Context(), true); !errors.Is(err, errNotWritten) {
		t.Errorf("third commit: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Errorf("abort after a commit: %v", err)
	}
	if got := digestOf(t, filepath.Join(dir, "checkpoint-4")); got != digestOfSample(t, 2) {
		t.Error("the new checkpoint is not there")
	}
}

func TestCommitNeverTakesTheNameOfAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "checkpoint-4")
	writeBytes(t, path, []byte("a user's file"))
	_, err := trySave(t.Context(), osDisk{}, dir, sampleContents(4, 1), true)
	if exists := (*ExistsError)(nil); !errors.As(err, &exists) || !exists.Foreign {
		t.Errorf("error is %v", err)
	}
	if string(readBytes(t, path)) != "a user's file" {
		t.Error("the file was changed")
	}
}

func TestCommitTakesAnEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "checkpoint-4"), 0o777); err != nil {
		t.Fatal(err)
	}
	if outcome := save(t, dir, sampleContents(4, 1), false); outcome != Saved {
		t.Errorf("outcome is %v", outcome)
	}
}

func TestOverwriteBehindSymlinks(t *testing.T) {
	real := t.TempDir()
	save(t, real, sampleContents(4, 1), false)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if outcome := save(t, link, sampleContents(4, 2), true); outcome != Replaced {
		t.Errorf("outcome is %v", outcome)
	}
	if digestOf(t, filepath.Join(real, "checkpoint-4")) != digestOfSample(t, 2) {
		t.Error("the new checkpoint is not where the link points")
	}
}

func TestWriteRefusesContents(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Contents)
		want   string
	}{
		"no weights":     {func(c *Contents) { c.Weights = nil }, "the weights, the optimizer"},
		"no state":       {func(c *Contents) { c.State = nil }, "the weights, the optimizer"},
		"no ranks":       {func(c *Contents) { c.RandomStates = nil }, "each rank needs"},
		"a rank missing": {func(c *Contents) { c.RandomStates[1] = nil }, "each rank needs"},
		"world size":     {func(c *Contents) { c.Manifest.WorldSize = 3 }, "2 random states for 3 ranks"},
		"step":           {func(c *Contents) { c.Step = 5 }, "of step 5, the checkpoint of step 4"},
		"global_step":    {func(c *Contents) { c.State.Set("global_step", 3) }, "global_step is 3"},
		"outside":        {func(c *Contents) { c.Companions["../x"] = []byte("x") }, `"../x" cannot be the name`},
		"own name":       {func(c *Contents) { c.Companions[StateFile] = []byte("x") }, `"trainer_state.json" cannot be`},
		"rng name":       {func(c *Contents) { c.Companions["rng_state_7.pth"] = []byte("x") }, `"rng_state_7.pth" cannot be`},
		"empty":          {func(c *Contents) { c.Companions["vocab.txt"] = nil }, `"vocab.txt" is empty`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			contents := sampleContents(4, 1)
			c.change(&contents)
			w, err := Begin(dir, 4)
			if err != nil {
				t.Fatal(err)
			}
			err = w.Write(t.Context(), contents)
			if refused := (*ContentsError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want … %s", err, c.want)
			}
			if err := w.Abort(); err != nil {
				t.Error(err)
			}
			if names := dirNames(t, dir); len(names) != 0 {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

func TestWriterOutOfOrder(t *testing.T) {
	if _, err := Begin(t.TempDir(), -1); err == nil {
		t.Error("a negative step was accepted")
	}
	w, err := Begin(t.TempDir(), 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(t.Context(), false); !errors.Is(err, errNotWritten) {
		t.Errorf("commit before write: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), sampleContents(4, 1)); err == nil {
		t.Error("write after abort was accepted")
	}
	parent := filepath.Join(t.TempDir(), "file")
	writeBytes(t, parent, []byte("x"))
	_, err = Begin(filepath.Join(parent, "run"), 4)
	if failed := (*WriteError)(nil); !errors.As(err, &failed) {
		t.Errorf("a run directory under a file: %v", err)
	}
}

func TestWriteStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := trySave(ctx, osDisk{}, dir, sampleContents(4, 1), false); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if names := dirNames(t, dir); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestNoRoomIsSeenBeforeWriting(t *testing.T) {
	d := &faultDisk{freeBytes: 1000}
	_, err := trySave(t.Context(), d, t.TempDir(), sampleContents(4, 1), false)
	space := (*SpaceError)(nil)
	if !errors.As(err, &space) || space.Free != 1000 || space.Needed < 64<<10 || space.Err != nil {
		t.Fatalf("error is %v", err)
	}
	if slices.ContainsFunc(d.calls, func(call string) bool { return strings.HasPrefix(call, "create") }) {
		t.Errorf("something was written: %v", d.calls)
	}
}

func TestDurableBeforeNamed(t *testing.T) {
	d := &faultDisk{}
	dir := t.TempDir()
	if _, err := trySave(t.Context(), d, dir, sampleContents(4, 1), false); err != nil {
		t.Fatal(err)
	}
	at := func(call string) int {
		i := slices.Index(d.calls, call)
		if i < 0 {
			t.Fatalf("no call %q in %v", call, d.calls)
		}
		return i
	}
	renamed := at("rename checkpoint-4")
	for _, name := range dirNames(t, filepath.Join(dir, "checkpoint-4")) {
		if synced := at("sync " + name); synced > at("sync "+ManifestFile) || synced > renamed {
			t.Errorf("%s was made durable too late", name)
		}
	}
	if at("syncDir .tmp-checkpoint-4") > renamed || at("syncDir "+filepath.Base(dir)) < renamed {
		t.Errorf("directories were not made durable in order: %v", d.calls)
	}
}

func TestSecondWriterLeavesTheFirstAlone(t *testing.T) {
	dir := t.TempDir()
	first, err := Begin(dir, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Abort()
	second, err := Begin(dir, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Abort()
	if err := first.Write(t.Context(), sampleContents(4, 1)); err != nil {
		t.Errorf("the first writer lost its directory: %v", err)
	}
	if outcome, err := first.Commit(t.Context(), false); outcome != Saved || err != nil {
		t.Errorf("%v, %v", outcome, err)
	}
}

func TestRecoverTouchesOnlyItsOwn(t *testing.T) {
	dir := t.TempDir()
	foreign := []string{"tmp-checkpoint-40", ".tmp-checkpoint-4", ".tmp-checkpoint-4-notes", "checkpoint-30", "logs"}
	foreign = append(foreign, ".displaced-checkpoint-30-0123abcd") // checkpoint-30 is empty
	own := []string{".tmp-checkpoint-4-0123abcd", ".displaced-checkpoint-8-0123abcd", ".displaced-checkpoint-31-0123abcd"}
	save(t, dir, sampleContents(8, 1), false)
	for _, name := range append(slices.Clone(foreign), own...) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	done, err := Recover(dir)
	if err != nil || len(done) != 3 {
		t.Errorf("Recover = %q, %v", done, err)
	}
	want := slices.Sorted(slices.Values(append(foreign, "checkpoint-31", "checkpoint-8")))
	if names := dirNames(t, dir); !slices.Equal(names, want) {
		t.Errorf("the directory holds %v, want %v", names, want)
	}
	if done, err := Recover(filepath.Join(dir, "none")); done != nil || err != nil {
		t.Errorf("Recover of nothing = %q, %v", done, err)
	}
}

func TestWriteErrorsName(t *testing.T) {
	d := &faultDisk{failAt: 6, err: &os.PathError{Op: "write", Path: "/x/optimizer.pt", Err: syscall.EIO}}
	_, err := trySave(t.Context(), d, t.TempDir(), sampleContents(4, 1), false)
	failed := (*WriteError)(nil)
	if !errors.As(err, &failed) || failed.Path != "/x/optimizer.pt" || !errors.Is(err, syscall.EIO) {
		t.Errorf("error is %v", err)
	}
	if strings.Count(err.Error(), "/x/optimizer.pt") != 1 || !strings.Contains(err.Error(), "earlier checkpoints are untouched") {
		t.Errorf("text is %v", err)
	}
}
