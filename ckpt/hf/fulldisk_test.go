//go:build linux || darwin

package hf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limitEnv makes the test binary a writer whose files cannot grow beyond 8 KiB:
// its value is the run directory.
const limitEnv = "HF_TEST_FILE_LIMIT"

// saveUnderLimit is run by the child.
func saveUnderLimit(dir string) {
	limit := syscall.Rlimit{Cur: 8 << 10, Max: 8 << 10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
	_, err := trySave(context.Background(), osDisk{}, dir, sampleContents(4, 2), true)
	space := (*SpaceError)(nil)
	fmt.Println(errors.As(err, &space), err)
}

// The kernel itself refuses to write on: the same path as a full disk's
// (D19, Lightning-AI/pytorch-lightning#688).
func TestRefusedByTheSystem(t *testing.T) {
	dir := saved(t, 4, 1)
	before := digestOf(t, filepath.Join(dir, "checkpoint-4"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), limitEnv+"="+dir)
	out, err := child.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "true no room for a checkpoint in "+dir) || !strings.Contains(string(out), "bytes needed") {
		t.Errorf("the writer said %s, %v", out, err)
	}
	if digestOf(t, filepath.Join(dir, "checkpoint-4")) != before {
		t.Error("the old checkpoint changed")
	}
	if names := dirNames(t, dir); !slices.Equal(names, []string{"checkpoint-4"}) {
		t.Errorf("left behind: %v", names)
	}
}
