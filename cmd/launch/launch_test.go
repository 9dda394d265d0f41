package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// regression are the flags that a Trainer's checkpoint needs.
func regression(more ...string) []string {
	return append([]string{"--data", "testdata/regression.jsonl", "--model", "testdata/regression.yaml"}, more...)
}

func args(parts ...any) []string {
	var out []string
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			out = append(out, strings.Fields(p)...)
		case []string:
			out = append(out, p...)
		}
	}
	return out
}

func TestTwoWorkersResumeATrainerCheckpoint(t *testing.T) {
	out := t.TempDir()
	e := run(t, args("--nproc 2 resume testdata/regression-w2/checkpoint-2", regression("--output-dir", out))...)
	e.wants(t, 0, "[rank0]: step 6/6", filepath.Join(out, "checkpoint-6")+": saved")
	if !strings.HasSuffix(e.stdout, "resume: OK\n") {
		t.Errorf("the last line is not resume: OK:\n%s", e.stdout)
	}
	// What was written resumes with nothing else said, in torchrun's spelling too.
	run(t, "--nproc_per_node=2", "resume", filepath.Join(out, "checkpoint-4")).wants(t, 0, "checkpoint-6: identical to the one already there, which is kept")
	run(t, "--nproc", "2", "resume", out).wants(t, 0, "resuming from "+filepath.Join(out, "checkpoint-6"), "nothing left to do", "resume: OK")
}

func TestTheBugAtTheCommandLine(t *testing.T) {
	out := filepath.Join(t.TempDir(), "never")
	const text = "RuntimeError: don't know how to restore data location of torch.storage.UntypedStorage (tagged with cpu:0)\n"
	bug := "resume testdata/regression-w2/checkpoint-2 --map-location device --location-rules torch"
	e := run(t, args("--nproc 2", bug, regression("--output-dir", out))...)
	e.wants(t, 1, "[rank0]: "+text, "[rank1]: "+text)
	if _, err := os.Stat(out); err == nil {
		t.Error("a failed resume wrote something")
	}
	run(t, args("--nproc 1", bug, regression("--output-dir", out))...).wants(t, 0,
		"world size 2 → 1", "rng_state.pth is missing", "is derived from seed 42", "resume: OK")
	run(t, args("--nproc 2", bug, regression("--output-dir", out+"2", "--location-rules", "lenient"))...).wants(t, 0, "resume: OK")
}

// endless is a run that does not end by itself, nor save.
func endless(out string) []string {
	return args("--nproc 3 train --config testdata/regression-train.yaml --set save_strategy=no --set logging_steps=20 --max-steps 100000000",
		regression("--output-dir", out))
}

// pidOfRank finds a worker of this launch by its environment.
func pidOfRank(t *testing.T, launcher, rank int) int {
	t.Helper()
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		env, err := os.ReadFile(path)
		if err != nil || !strings.Contains("\x00"+string(env), fmt.Sprintf("\x00RANK=%d\x00", rank)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		exe, _ := os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
		fields := strings.Fields(string(stat[max(0, strings.LastIndexByte(string(stat), ')')):]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(launcher) && exe == filepath.Join(bin, "worker") {
			return pid
		}
	}
	t.Skip("no /proc to find a worker in")
	return 0
}

// A worker that dies or freezes in mid-step ends the job at once, and everyone
// names it.
func TestLostWorkerIsNamedByAll(t *testing.T) {
	for name, tc := range map[string]struct {
		signal syscall.Signal
		within time.Duration
		code   int
		says   string
	}{
		"killed":  {syscall.SIGKILL, 2 * time.Second, 128 + 9, "SIGKILL"},
		"stopped": {syscall.SIGSTOP, 10 * time.Second, 124, "has not answered for"},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, endless(t.TempDir())...)
			r.waitForLine(t, "]: step ")
			pid := pidOfRank(t, r.cmd.Process.Pid, 1)
			begun := time.Now()
			if err := syscall.Kill(pid, tc.signal); err != nil {
				t.Fatal(err)
			}
			e := r.wait(t)
			if took := time.Since(begun); took > tc.within {
				t.Errorf("the job ended after %v, want at most %v", took, tc.within)
			}
			victim := fmt.Sprintf("rank 1 (pid %d)", pid)
			e.wants(t, tc.code, tc.says, "launch: "+victim+" failed first")
			for _, survivor := range []string{"[rank0]: stopped in step ", "[rank2]: stopped in step "} {
				i := strings.Index(e.stderr, survivor)
				if i < 0 || !strings.Contains(strings.SplitN(e.stderr[i:], "\n", 2)[0], "rank 1") {
					t.Errorf("%q does not name rank 1:\n%s", survivor, e.stderr)
				}
			}
		})
	}
}

func TestInterruptEndsEverythingWithinASecond(t *testing.T) {
	r := start(t, endless(t.TempDir())...)
	r.waitForLine(t, "]: step ")
	pid := pidOfRank(t, r.cmd.Process.Pid, 1)
	begun := time.Now()
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	e := r.wait(t)
	if took := time.Since(begun); took > time.Second {
		t.Errorf("ended after %v", took)
	}
	e.wants(t, 128+2)
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("rank 1 still lives")
	}
}

// Two runs must not write checkpoints into one directory, whatever their steps.
func TestOutputDirectoryIsForOneRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	first := start(t, endless(out)...)
	first.waitForLine(t, "]: step ")
	run(t, endless(out)...).wants(t, 1, out+" is in use by another run", "--output-dir")
	if err := first.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	first.wait(t).wants(t, 128+2)
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("a run that saved nothing left its directory: %v", err)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"resume", 2, "resume takes one checkpoint"},
		{"resume a b", 2, "found 2 arguments"},
		{"--nproc 0 resume x", 2, "nproc"},
		{"--nproc 2 resume x --max-steps many", 2, "expected a number of updates"},
		{"--no-such-flag", 2, "no-such-flag"},
		{"frobnicate", 2, "frobnicate"},
		{"resume no/such/checkpoint", 1, "no/such/checkpoint does not exist"},
		{"resume testdata/regression.jsonl", 1, "not a checkpoint"},
		{"resume testdata/raw-ddp-w2/legacy.pth", 2, "--sampler distributed"},
		{"resume testdata/regression-w2/checkpoint-2", 2, "--model"},
		{"resume testdata/regression-w2/checkpoint-2 --model testdata/regression.yaml", 2, "--data"},
		{"resume testdata/regression-w2/checkpoint-2 --model testdata/regression.yaml --data gone.jsonl", 1, "gone.jsonl"},
		{"train --model testdata/regression.yaml --data testdata/regression.jsonl --set lerning_rate=1", 2, `did you mean "learning_rate"?`},
	} {
		t.Run(tc.args, func(t *testing.T) {
			e := run(t, strings.Fields(tc.args)...)
			e.wants(t, tc.code, tc.says)
			if n := strings.Count(e.stderr, "error"); n > 1 {
				t.Errorf("%d errors were printed:\n%s", n, e.stderr)
			}
		})
	}
}
