package publish

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// holds checks that dir has exactly these files.
func holds(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		if w, ok := want[e.Name()]; !ok || w != string(b) {
			t.Errorf("%s holds %q", e.Name(), b)
		}
	}
	if len(entries) != len(want) {
		t.Errorf("%d files, want %d", len(entries), len(want))
	}
}

func TestFilesAppearTogetherAndReplaceNothing(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	s := New(false)
	for path, content := range map[string]string{a: "1", b: "2"} {
		if err := s.Write(t.Context(), path, text(content)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the final name is there before the commit")
		}
	}
	if err := errors.Join(s.Commit(), s.Abort()); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, map[string]string{"a": "1", "b": "2"})

	var exists *ExistsError
	if err := New(false).Write(t.Context(), a, text("3")); !errors.As(err, &exists) || exists.Path != a {
		t.Errorf("err = %v", err)
	}
	force := New(true)
	if err := errors.Join(force.Write(t.Context(), a, text("3")), force.Commit()); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, map[string]string{"a": "3", "b": "2"})
}

func TestFailuresLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	boom := errors.New("boom")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, write := range map[string]func(s *Set) error{
		"writing": func(s *Set) error {
			return s.Write(t.Context(), filepath.Join(dir, "x"), func(io.Writer) error { return boom })
		},
		"cancelled": func(s *Set) error { return s.Write(cancelled, filepath.Join(dir, "x"), text("1")) },
		"taken meanwhile": func(s *Set) error {
			if err := s.Write(t.Context(), filepath.Join(dir, "late"), text("mine")); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, "late"), []byte("theirs"), 0o600); err != nil {
				return err
			}
			return s.Commit()
		},
		"no directory": func(s *Set) error { return s.Write(t.Context(), filepath.Join(dir, "gone", "x"), text("1")) },
	} {
		s := New(false)
		if err := write(s); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := s.Abort(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	holds(t, dir, map[string]string{"late": "theirs"})
}
