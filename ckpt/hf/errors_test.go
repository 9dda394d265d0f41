package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"rejoin/ckpt/torchfile"
)

func TestFileErrors(t *testing.T) {
	for _, c := range []struct {
		err     error
		problem Problem
		text    string
	}{
		{fs.ErrNotExist, Missing, "d/optimizer.pt is missing; resume from another checkpoint, or start again from the weights alone with a fresh optimizer"},
		{&fs.PathError{Op: "open", Path: "d/optimizer.pt", Err: syscall.EACCES}, Unreadable, "d/optimizer.pt cannot be read: permission denied; resume"},
		{errors.New("odd"), Damaged, "d/optimizer.pt is damaged: odd; resume"},
		{&torchfile.FormatError{Path: "d/optimizer.pt", Problem: "cut", Next: "do something"}, Damaged, "d/optimizer.pt is damaged: cut; resume"},
		{fmt.Errorf("deeper: %w", &FileError{Path: "d/x", Problem: Empty}), Empty, "deeper: d/x is empty"},
	} {
		err := fileError("d/optimizer.pt", c.err)
		file := (*FileError)(nil)
		if !errors.As(err, &file) || file.Problem != c.problem || !strings.HasPrefix(err.Error(), c.text) {
			t.Errorf("%v becomes %v, want %v: %s …", c.err, err, c.problem, c.text)
		}
	}
	for p := Missing; p <= Unsupported; p++ {
		if strings.HasPrefix(p.String(), "Problem") {
			t.Errorf("%v has no text", p)
		}
	}
	if Problem(0).String() != "Problem(0)" || Outcome(9).String() != "Outcome(9)" {
		t.Error("an unknown kind hides its number")
	}
	for want, o := range map[string]Outcome{"unpublished": Unpublished, "saved": Saved, "kept": Kept, "replaced": Replaced} {
		if o.String() != want {
			t.Errorf("%v, want %s", o, want)
		}
	}
}

func TestMessagesSayWhatToDo(t *testing.T) {
	for want, err := range map[string]error{
		"about 7 bytes needed, 3 free; make room":              &SpaceError{Dir: "d", Needed: 7, Free: 3},
		"(no space left on device)":                            &SpaceError{Dir: "d", Err: syscall.ENOSPC},
		"exists and differs in a, b; allow overwriting":        &ExistsError{Path: "d", Differs: []string{"a", "b"}},
		"is not a directory; move it away":                     &ExistsError{Path: "d", Foreign: true},
		"use the Rejoin version that wrote it":                 &ManifestFormatError{Found: 3},
		"expected directories named checkpoint-N":              &NoCheckpointError{Dir: "d"},
		"(d/x skipped: cut); start a new run":                  &NoCheckpointError{Dir: "d", Skipped: []Skipped{{"d/x", errors.New("cut")}}},
		"rank 1 of 2 has no saved random state":                &MissingRandomStateError{Path: "p", Rank: 1, WorldSize: 2},
		"training argument seed: expected an int, found str x": &ArgumentError{"seed", "x", "an int"},
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want … %s", err, want)
		}
	}
}
