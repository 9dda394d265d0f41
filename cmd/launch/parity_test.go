package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A row that makes one rank's loss infinite stops the job with one message; the
// flags that go on from there, evaluating and strict, are taken in any order.
func TestNonFiniteLossAtTheCommandLine(t *testing.T) {
	dir := t.TempDir()
	rows, err := os.ReadFile("../../testdata/regression.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	path, out := filepath.Join(dir, "rows.jsonl"), filepath.Join(dir, "out")
	lines := strings.SplitAfter(string(rows), "\n")
	_, rest, _ := strings.Cut(lines[39], ",")
	lines[39] = `{"x": [1e25,` + rest // rank 1 trains it in update 7
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	e := run(t, args("--nproc 2 train --model testdata/regression.yaml --set per_device_train_batch_size=2 --max-steps 10 --save-steps 2 --set logging_steps=1",
		[]string{"--data", path, "--output-dir", out})...)
	e.wants(t, 1, "error: step 7: rank 1: the loss is +Inf", "the last good checkpoint is "+filepath.Join(out, "checkpoint-6"))
	if n := strings.Count(e.stderr, "error: "); n != 1 {
		t.Errorf("%d errors, want one:\n%s", n, e.stderr)
	}
	run(t, args("--nproc 2 resume --on-nan skip --strict --set eval_strategy=steps --set eval_steps=2 --eval-data testdata/regression-eval.jsonl", out)...).
		wants(t, 0, "step 7 is skipped on all ranks", "step 10/10  eval_loss", "resume: OK")
	if err := os.Remove(filepath.Join(out, "checkpoint-8", "rng_state_1.pth")); err != nil {
		t.Fatal(err)
	}
	run(t, args("--nproc 2 resume --strict", filepath.Join(out, "checkpoint-8"), "--output-dir", filepath.Join(dir, "elsewhere"))...).
		wants(t, 1, "error: --strict: rank 1: ", "rng_state_1.pth is missing")
}
