package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
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

func TestBenchExitCodes(t *testing.T) {
	for args, says := range map[string]string{
		"bench checkpoint --size 0":    "--size: found 0 MB",
		"bench checkpoint --size x":    "size",
		"bench checkpoint --rounds 0":  "--rounds: found 0",
		"bench checkpoint --procs 2,0": "--procs: found 0",
		"bench checkpoint a":           "a",
		"bench nothing":                "nothing",
		"bench checkpoint --size=-200": "expected 1 to",
	} {
		t.Run(args, func(t *testing.T) {
			run(t, strings.Fields(args)...).wants(t, 2, says)
		})
	}
	run(t, "bench").wants(t, 0, "checkpoint")
}

func TestBenchTrain(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("REJOIN_PYTHON", "no-such-python")
	e := run(t, args("bench train --layers 4,3 --batch 2 --steps 2000 --rounds 1")...)
	e.wants(t, 0, "2 workers, layers [4 3] (15 parameters)", "launch train", "torch: skipped: ", "no-such-python")
	run(t, args("bench train --layers 4")...).wants(t, 2, "has no layer")
	run(t, args("bench train --workers 0")...).wants(t, 2, "0 workers")
}
