package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"rejoin/collective/bench"
)

func TestBenchCheckpoint(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("REJOIN_PYTHON", "no-such-python")
	e := run(t, "bench", "checkpoint", "--size", "1", "--rounds", "1")
	e.wants(t, 0, "rejoin load, torch file", "plain write", "the speed of a plain write", "torch: skipped: ", "no-such-python")
	if e.stderr != "" {
		t.Errorf("progress where there is no terminal:\n%s", e.stderr)
	}
	e = run(t, "bench", "checkpoint", "--size", "1", "--rounds", "1", "--procs", "1,2", "--json")
	e.wants(t, 0)
	var result map[string]any
	if err := json.Unmarshal([]byte(e.stdout), &result); err != nil {
		t.Fatalf("%v:\n%s", err, e.stdout)
	}
	if hosts, _ := result["hosts"].([]any); runtime.GOOS == "linux" && len(hosts) != 2 {
		t.Errorf("hosts of 1 and 2 processes: %v", hosts)
	}
	for _, key := range []string{"state_bytes", "tensors", "rounds", "torch_skipped", "measures", "ratios"} {
		if _, ok := result[key]; !ok {
			t.Errorf("no %q in\n%s", key, e.stdout)
		}
	}
}

func TestBenchAllReduce(t *testing.T) {
	t.Setenv("REJOIN_PYTHON", "no-such-python")
	e := run(t, "--nproc", "2", "bench", "allreduce", "--rounds", "1")
	e.wants(t, 0, "between 2 processes", "64 MiB", "gloo: skipped: ", "no-such-python")
	if e.stderr != "" {
		t.Errorf("said beside it:\n%s", e.stderr)
	}
}

// pythonWith writes a program that stands in for a Python with torch: it answers
// what is asked of its modules, and as a rank of the benchmark runs a script.
func pythonWith(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python3")
	text := `#!/bin/sh
case "$2" in *PROBE*) printf '\nPROBE{"version":"3.0","modules":{"torch":{"version":"9.9"}}}\n'; exit;; esac
` + script
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBenchAllReduceBesideGloo(t *testing.T) {
	t.Setenv("REJOIN_PYTHON", pythonWith(t, `test "$RANK" = 0 || exit 0
for n in 4 4096 65536 262144 4194304 67108864; do echo "{\"bytes\":$n,\"seconds\":[3600],\"torch\":\"9.9\"}"; done`))
	e := run(t, "--nproc", "3", "bench", "allreduce", "--rounds", "2", "--json")
	e.wants(t, 0)
	var r bench.Result
	if err := json.Unmarshal([]byte(e.stdout), &r); err != nil {
		t.Fatalf("%v:\n%s", err, e.stdout)
	}
	if r.NProc != 3 || r.Rounds != 2 || r.Torch != "9.9" || len(r.Sizes) != len(bench.Sizes) {
		t.Fatalf("%+v", r)
	}
	for _, s := range r.Sizes {
		if s.Rejoin.Calls < 20 || s.Gloo == nil || s.Gloo.Calls != 2 || s.Ratio != 3600/s.Rejoin.Median {
			t.Errorf("%+v, gloo %+v", s, s.Gloo)
		}
	}
	t.Setenv("REJOIN_PYTHON", pythonWith(t, `echo 'RuntimeError: no gloo here' >&2; exit 1`))
	run(t, "--nproc", "2", "bench", "allreduce", "--rounds", "1").wants(t, 1, "RuntimeError: no gloo here", "python3")
}

// Real torch, if there is one.
func TestBenchAllReduceInterop(t *testing.T) {
	if os.Getenv("REJOIN_PYTHON") == "" {
		t.Skip("needs torch: set REJOIN_PYTHON to an interpreter that has it")
	}
	e := run(t, "--nproc", "2", "bench", "allreduce", "--rounds", "1")
	e.wants(t, 0, "gloo (torch ", "times as fast")
	t.Log(e.stdout)
}

func TestBenchExitCodes(t *testing.T) {
	for args, says := range map[string]string{
		"bench checkpoint --size 0":            "--size: found 0 MB",
		"bench checkpoint --size x":            "size",
		"bench checkpoint --rounds 0":          "--rounds: found 0",
		"bench checkpoint --procs 2,0":         "--procs: found 0",
		"bench checkpoint a":                   "a",
		"bench nothing":                        "nothing",
		"bench checkpoint --size=-200":         "expected 1 to",
		"bench allreduce":                      "launch --nproc 2 bench allreduce",
		"bench allreduce a --nproc 2":          "a",
		"bench allreduce --nproc 2 --rounds 0": "--rounds: found 0",
	} {
		t.Run(args, func(t *testing.T) {
			run(t, strings.Fields(args)...).wants(t, 2, says)
		})
	}
	run(t, "bench").wants(t, 0, "checkpoint", "allreduce")
	run(t, "bench", "rank").wants(t, 1, "started by launch bench allreduce")
}

func TestBenchTrain(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("REJOIN_PYTHON", "no-such-python")
	e := run(t, args("--nproc 2 bench train --layers 64,512,10 --batch 4 --steps 300 --rounds 1")...)
	e.wants(t, 0, "2 workers, layers [64 512 10] (38410 parameters)", "launch train", "torch: skipped: ", "no-such-python")
	run(t, args("bench train --layers 4")...).wants(t, 2, "has no layer")
}
