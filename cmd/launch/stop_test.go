package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"rejoin/ckpt/hf"
)

// untilStep is a run of so many quick steps that saves only at its end. Its first
// steps are the same whatever their number.
func untilStep(last int, out string) []string {
	return args("--nproc 2 train --config testdata/regression-train.yaml --set save_steps=1000000000 --set logging_steps=20 --set lr_scheduler_type=constant",
		regression("--output-dir", out, "--max-steps", strconv.Itoa(last)))
}

func (r *running) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

var savedLine = regexp.MustCompile(`(?m)^\[rank0\]: (\S+/checkpoint-\d+): saved$`)

// SIGUSR1 makes every rank save at one step and go on; SIGTERM makes them save
// and leave, with how to go on. What either saved resumes to the same bytes as a
// run that was left alone.
func TestSignalsSaveAndTheRunGoesOn(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	r := start(t, untilStep(1000000000, out)...)
	r.waitForLine(t, "step ")
	r.signal(t, syscall.SIGUSR1)
	r.waitForLine(t, ": saved")
	r.waitForLine(t, "step ")
	r.signal(t, syscall.SIGTERM)
	e := r.wait(t)
	e.wants(t, 75, "[rank0]: SIGTERM: saving after this step", "stopped by SIGTERM after step ", "to go on: launch --nproc 2 resume "+out+"/checkpoint-", "launch: stopped as asked", "exit code 75")
	saved := savedLine.FindAllStringSubmatch(e.stdout, -1)
	if len(saved) != 2 {
		t.Fatalf("%d checkpoints were saved, want one for each signal:\n%s%s", len(saved), e.stdout, e.stderr)
	}
	stopped, ok := hf.StepOfName(filepath.Base(saved[1][1]))
	if !ok {
		t.Fatalf("saved %s", saved[1][1])
	}
	last := stopped + 100
	straight, name := t.TempDir(), fmt.Sprintf("checkpoint-%d", last)
	run(t, untilStep(last, straight)...).wants(t, 0, "training from scratch: OK")
	for _, s := range saved {
		again := t.TempDir()
		run(t, "--nproc", "2", "resume", s[1], "--output-dir", again, "--max-steps", strconv.Itoa(last)).wants(t, 0, "resume: OK")
		sameDir(t, filepath.Join(again, name), filepath.Join(straight, name))
	}
}

var runName = regexp.MustCompile(`"run": "[0-9a-f]+"`)

func sameDir(t *testing.T, got, want string) {
	t.Helper()
	entries, err := os.ReadDir(want)
	if err != nil || len(entries) < 7 {
		t.Fatalf("%s holds %d files, %v", want, len(entries), err)
	}
	for _, entry := range entries {
		a, err := os.ReadFile(filepath.Join(got, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(want, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if entry.Name() == "manifest.json" { // it names the run it began as
			a, b = runName.ReplaceAll(a, nil), runName.ReplaceAll(b, nil)
		}
		if string(a) != string(b) {
			t.Errorf("%s differs from the run that was left alone", entry.Name())
		}
	}
}

// A job manager may send SIGTERM to the workers themselves, and to one alone.
func TestTerminatedWorkerStopsAllInGoodOrder(t *testing.T) {
	out := t.TempDir()
	r := start(t, endless(out)...)
	r.waitForLine(t, "step ")
	if err := syscall.Kill(pidOfRank(t, r.cmd.Process.Pid, 1), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	e := r.wait(t)
	e.wants(t, 75, "stopped by a signal to another rank after step ", ": saved")
	run(t, "--nproc", "3", "resume", out, "--max-steps", "1").wants(t, 0, "nothing left to do")
}

// A disk that is full stops the run with numbers, and leaves the checkpoints
// (D19, Lightning-AI/pytorch-lightning#688).
func TestFullDiskEndToEnd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system takes root")
	}
	out := t.TempDir()
	if err := mountSmall(out, "200k"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(out); err != nil {
			t.Error(err)
		}
	})
	e := run(t, args("--nproc 2 train --config testdata/regression-train.yaml --set save_steps=1", regression("--output-dir", out))...)
	e.wants(t, 1, "no room for a checkpoint in "+out, "bytes needed", "free", "earlier checkpoints are untouched")
	if n := strings.Count(e.stderr, "no room"); n != 1 {
		t.Errorf("said %d times:\n%s", n, e.stderr)
	}
	run(t, "--nproc", "2", "resume", out, "--output-dir", t.TempDir()).wants(t, 0, "resuming from "+out, "resume: OK")
}
