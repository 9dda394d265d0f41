package hf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Every single call that a save makes to the file system fails once, or is the last one
// of its process. Whatever the call, the older checkpoint stays, the saved one is the
// old or the new whole one, and the next save works
// (D19, Lightning-AI/pytorch-lightning#688).
func TestEveryFaultLeavesAWholeCheckpoint(t *testing.T) {
	for _, scenario := range []struct {
		name       string
		present    bool // another checkpoint-4 is there
		noExchange bool
	}{
		{"new", false, false},
		{"overwrite", true, false},
		{"overwrite without exchange", true, true},
	} {
		for _, kill := range []bool{false, true} {
			name := scenario.name + ", full disk"
			if kill {
				name = scenario.name + ", killed"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				before := saved(t, 2, 3)
				wholes := []string{digestOfSample(t, 2)}
				if scenario.present {
					save(t, before, sampleContents(4, 1), false)
					wholes = append(wholes, digestOfSample(t, 1))
				}
				older := digestOf(t, filepath.Join(before, "checkpoint-2"))
				for at := 1; ; at++ {
					dir := copyOf(t, before, "run")
					d := &faultDisk{failAt: at, err: syscall.ENOSPC, kill: kill, noExchange: scenario.noExchange}
					outcome, err := trySave(t.Context(), d, dir, sampleContents(4, 2), true)
					d.exit()
					if at > len(d.calls) {
						if err != nil {
							t.Fatalf("a save without a fault: %v", err)
						}
						break
					}
					call := d.calls[at-1]
					checkAfterFault(t, call, dir, outcome, err, kill)
					checkDigests(t, call, dir, older, wholes)
					if err := os.RemoveAll(dir); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// saved is a run directory with one checkpoint.
func saved(t *testing.T, step int, variant float32) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	save(t, dir, sampleContents(step, variant), false)
	return dir
}

// checkAfterFault checks what the failed save said and what it left behind.
func checkAfterFault(t *testing.T, call, dir string, outcome Outcome, err error, kill bool) {
	t.Helper()
	if err == nil && outcome == Unpublished {
		t.Errorf("%s failed, and nobody said so", call)
	}
	space := (*SpaceError)(nil)
	if wrote := strings.HasPrefix(call, "write "); wrote && !kill && !errors.As(err, &space) {
		t.Errorf("%s: a full disk gave %v", call, err)
	}
	// The replaced checkpoint may only go when the new name is known to be on
	// the disk; what could not be removed, Recover removes later.
	stays := strings.HasPrefix(call, "removeAll") || outcome == Replaced
	if !kill && !stays {
		for _, name := range dirNames(t, dir) {
			if ownTemporary.MatchString(name) {
				t.Errorf("%s failed and %s was left behind", call, name)
			}
		}
	}
}

// checkDigests checks that the older checkpoint, and of those in wholes (the
// new one, then the old one if it was there) one, are whole; then saves again.
func checkDigests(t *testing.T, call, dir, older string, wholes []string) {
	t.Helper()
	if _, err := Recover(dir); err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	if digestOf(t, filepath.Join(dir, "checkpoint-2")) != older {
		t.Fatalf("%s: the older checkpoint changed", call)
	}
	path, skipped, err := Latest(dir)
	if err != nil || len(skipped) > 0 {
		t.Fatalf("%s: Latest = %s, %v, %v", call, path, skipped, err)
	}
	switch filepath.Base(path) {
	case "checkpoint-2":
		if len(wholes) > 1 {
			t.Fatalf("%s: checkpoint-4 is gone", call)
		}
	case "checkpoint-4":
		if !slices.Contains(wholes, digestOf(t, path)) {
			t.Fatalf("%s: checkpoint-4 is neither the old nor the new one", call)
		}
	}
	save(t, dir, sampleContents(4, 2), true)
	if digestOf(t, filepath.Join(dir, "checkpoint-4")) != wholes[0] {
		t.Fatalf("%s: the next save did not take", call)
	}
	if names := dirNames(t, dir); !slices.Equal(names, []string{"checkpoint-2", "checkpoint-4"}) {
		t.Fatalf("%s: the run directory holds %v", call, names)
	}
}
