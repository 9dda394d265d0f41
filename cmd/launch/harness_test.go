package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Everything that needs no Python passes, and what needs it is skipped with a reason.
func TestHarnessWithoutPython(t *testing.T) {
	t.Setenv("REJOIN_PYTHON", filepath.Join(t.TempDir(), "no-python"))
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	e := run(t, "harness", "--dir", file("work"), "--json", file("r.json"), "--junit", file("r.xml"), "--html", file("r.html"))
	e.wants(t, 0, "passed  bug ", "passed  bug-fixed ", "skipped trainer-bug ", "no-python", " 0 failed, 4 skipped")
	if left, err := os.ReadDir(file("work")); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	var report struct {
		Results []struct{ Name, Outcome, Reason string }
	}
	text, err := os.ReadFile(file("r.json"))
	if err != nil || json.Unmarshal(text, &report) != nil || len(report.Results) < 20 {
		t.Fatalf("JSON report: %v\n%s", err, text)
	}
	for _, r := range report.Results {
		if r.Outcome == "skipped" && r.Reason == "" {
			t.Errorf("%s is skipped without a reason", r.Name)
		}
	}
	text, err = os.ReadFile(file("r.xml"))
	if err != nil || xml.Unmarshal(text, &struct{ XMLName xml.Name }{}) != nil {
		t.Errorf("JUnit report: %v\n%s", err, text)
	}
	if text, err = os.ReadFile(file("r.html")); err != nil || !strings.Contains(string(text), "<polyline") {
		t.Errorf("HTML report: %v", err)
	}
}

func TestHarnessFailureTellsHowToRunItAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(path, []byte(`
name: mine
about: Expects what does not come
jobs:
  - name: run
    workers: 2
    command: [sh, -c, "mkfifo f 2>/dev/null; echo rank {rank} of {world_size}, port $MASTER_PORT; if [ {rank} = 0 ]; then exec 9>f; else cat f; fi; exit {rank}"]
    expect:
      exit: 1
      ranks: {0: 0, 1: 7}
      rank_says: {0: ["rank 0 of 2"], 1: ["rank 1 of 2"]}
`), 0o666); err != nil {
		t.Fatal(err)
	}
	e := run(t, "harness", path)
	e.wants(t, 1, "failed  mine", "rank 1: exit code 1, expected 7", "harness --keep "+path, "| rank 1 of 2, port ", "1 failed")
	if strings.Contains(e.stdout, "does not say") {
		t.Errorf("the arguments were not filled in by rank:\n%s", e.stdout)
	}
}

func TestHarnessUsage(t *testing.T) {
	run(t, "harness", "--only", "no-such").wants(t, 2, `no scenario "no-such"`, "bug-fixed")
	run(t, "harness", "gone.yaml").wants(t, 1, "gone.yaml")
	run(t, "harness", "--list").wants(t, 0, "bug ", "trainer-fixed ")
	run(t, "harness", "bisect-resume", "one").wants(t, 2, "found 1 arguments")
}

func TestBisectResume(t *testing.T) {
	out := t.TempDir()
	run(t, args("--nproc 2 resume testdata/regression-w2/checkpoint-2", regression("--output-dir", out))...).wants(t, 0)
	run(t, "harness", "bisect-resume", out, out).wants(t, 0, "do not part", "checkpoints: of steps 4, 6")
	// Rejoin's last bits are not torch's.
	run(t, "harness", "bisect-resume", "--json", out, "testdata/regression-w2").wants(t, 1, `"step": `, `"compared": [`)
}

func TestInteropHarnessReproducesTheBugAndItsFix(t *testing.T) {
	if os.Getenv("REJOIN_PYTHON") == "" {
		t.Skip("needs torch: set REJOIN_PYTHON to an interpreter that has it")
	}
	e := run(t, "harness", "--only", "ddp-bug", "--only", "trainer-bug", "--only", "trainer-fixed")
	e.wants(t, 0, " 0 failed")
	if os.Getenv("REJOIN_INTEROP") == "1" {
		e.wants(t, 0, "passed  ddp-bug")
	}
}
