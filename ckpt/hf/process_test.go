//go:build linux || darwin

package hf

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// childEnv makes the test binary a writer that stops at one call: its value is
// the call's number and the run directory.
const childEnv = "HF_TEST_STOP_AT"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		at, dir, _ := strings.Cut(spec, " ")
		stopAt(at, dir)
		return
	}
	if dir := os.Getenv(limitEnv); dir != "" {
		saveUnderLimit(dir)
		return
	}
	os.Exit(m.Run())
}

// stopAt saves into dir and, at the given call, says so and waits to be killed.
func stopAt(at, dir string) {
	n, err := strconv.Atoi(at)
	if err != nil {
		panic(err)
	}
	d := &faultDisk{failAt: n, noExchange: true, reached: func() {
		fmt.Println("stopped")
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or the parent is gone
		os.Exit(3)
	}}
	_, err = trySave(context.Background(), d, dir, sampleContents(4, 2), true)
	fmt.Println("not stopped:", err)
}

// A real process is killed by SIGKILL: the kernel gives up its lock, and the next run
// finds whole checkpoints and clears the rest (D19, Lightning-AI/pytorch-lightning#688).
func TestKilledProcess(t *testing.T) {
	old, fresh := saved(t, 4, 1), saved(t, 4, 2)
	trace := &faultDisk{noExchange: true}
	if _, err := trySave(t.Context(), trace, copyOf(t, old, "run"), sampleContents(4, 2), true); err != nil {
		t.Fatal(err)
	}
	wholes := []string{digestOf(t, filepath.Join(old, "checkpoint-4")), digestOf(t, filepath.Join(fresh, "checkpoint-4"))}
	for _, point := range []struct {
		call  string
		whole int // which checkpoint must be there: old or new
	}{
		{"write " + OptimizerFile, 0},
		{"sync " + ManifestFile, 0},
		{"rename .displaced-checkpoint-4", 0},
		{"rename checkpoint-4", 0},
		{"removeAll .displaced-checkpoint-4", 1},
	} {
		t.Run(point.call, func(t *testing.T) {
			t.Parallel()
			dir := copyOf(t, old, "run")
			killAt(t, slices.Index(trace.calls, point.call)+1, dir)
			if done, err := Recover(dir); err != nil || len(done) == 0 {
				t.Errorf("Recover = %q, %v", done, err)
			}
			if digestOf(t, filepath.Join(dir, "checkpoint-4")) != wholes[point.whole] {
				t.Error("not the checkpoint expected")
			}
			if names := dirNames(t, dir); !slices.Equal(names, []string{"checkpoint-4"}) {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

// killAt runs a writer until it makes call number at, and kills it there.
func killAt(t *testing.T, at int, dir string) {
	t.Helper()
	if at == 0 {
		t.Fatal("a save does not make this call")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", childEnv, at, dir))
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if line != "stopped\n" {
		t.Errorf("the writer said %q, %v", line, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err == nil || ctx.Err() != nil {
		t.Errorf("the killed writer ended with %v", err)
	}
}
