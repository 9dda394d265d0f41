package trainbench

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rejoin/ckpt/safetensors"
)

// A race's figures come from the difference of its runs.
func TestResult(t *testing.T) {
	o := Options{WorldSize: 2, Widths: []int{4, 3, 2}, BatchSize: 8, Steps: 100, Rounds: 1}
	r := o.result([]*racer{
		{short: 200 * time.Millisecond, long: 1200 * time.Millisecond},
		{short: 2 * time.Second, long: 4 * time.Second, said: "[rank0]: torch 2.14.0+cpu\nlaunch: done\n"},
	})
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s = %v, expected %v", what, got, want)
		}
	}
	near("our steps/s", r.Rejoin.StepsPerSecond, 100)
	near("our start", r.Rejoin.StartSeconds, 0.1)
	near("torch's steps/s", r.Torch.StepsPerSecond, 50)
	near("torch's start", r.Torch.StartSeconds, 1.8)
	near("speed", r.SpeedOfTorch, 2)
	if r.Parameters != 5*3+4*2 || r.Version != "2.14.0+cpu" {
		t.Errorf("%d parameters, torch %q", r.Parameters, r.Version)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text, nil); err != nil || !strings.Contains(text.String(), "2.00 × the speed of DDP") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// fakeLaunch is a program that stands for the launcher: it notes its arguments.
func fakeLaunch(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "launch")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunTakesTurns(t *testing.T) {
	notes := filepath.Join(t.TempDir(), "notes")
	launch := fakeLaunch(t, `echo "$*" >> `+notes+`; echo "[rank0]: torch 9.9"`+"\n")
	clock, calls := time.Unix(0, 0), 0
	now := func() time.Time { // a short run takes one second, the long one after it two
		if calls++; calls%2 == 0 {
			clock = clock.Add(time.Duration(2-calls/2%2) * time.Second)
		}
		return clock
	}
	var turns []int64
	o := Options{
		Launch: launch, Python: "py", WorldSize: 3, Widths: []int{4, 3, 2}, BatchSize: 8, Steps: 7, Rounds: 2,
		Progress: func(done, _ int64) { turns = append(turns, done) }, now: now,
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Torch == nil || r.Version != "9.9" || len(turns) != 8 || math.Abs(r.Rejoin.StepsPerSecond-7) > 1e-9 {
		t.Errorf("torch %v of version %q, %v steps/s, after %v runs", r.Torch, r.Version, r.Rejoin.StepsPerSecond, turns)
	}
	said, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	for i, parts := range [][]string{{"--nproc 3 train", "--max-steps 10"}, {"--max-steps 17"}, {"--nproc 3 run -- py", "peer.py 4,3,2 8 10"}, {"peer.py 4,3,2 8 17"}} {
		for _, part := range parts {
			if !strings.Contains(lines[i], part) {
				t.Errorf("run %d was %q, expected %q in it", i, lines[i], part)
			}
		}
	}
}

func TestRunReportsAFailure(t *testing.T) {
	o := Options{Launch: fakeLaunch(t, "echo no such thing; exit 3\n"), WorldSize: 2, Widths: []int{4, 2}, BatchSize: 8, Steps: 7, Rounds: 1}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "launch train: exit status 3") || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, o); err == nil {
		t.Error("an ended context is no error")
	}
}

// A race that is called off in mid-run ends the program, and leaves no files.
func TestRunIsCalledOff(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := Options{
		Launch:    fakeLaunch(t, `case "$*" in *"--max-steps 10 "*) exit 0;; esac`+"\nexec sleep 1000\n"),
		WorldSize: 2, Widths: []int{4, 2}, BatchSize: 8, Steps: 7, Rounds: 1,
		Progress: func(int64, int64) { cancel() }, // after the short run
	}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{WorldSize: 2, Widths: []int{4}, BatchSize: 8, Steps: 7, Rounds: 1},
		{WorldSize: 2, Widths: []int{4, 0}, BatchSize: 8, Steps: 7, Rounds: 1},
		{WorldSize: 0, Widths: []int{4, 2}, BatchSize: 8, Steps: 7, Rounds: 1},
	} {
		if o.Validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// The rows that are generated fit the model.
func TestRows(t *testing.T) {
	o := Options{WorldSize: 2, Widths: []int{4, 3, 2}, BatchSize: 8}
	path := filepath.Join(t.TempDir(), "rows.safetensors")
	if err := o.writeRows(path); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, _ := f.StateDict().Get("x")
	label, _ := f.StateDict().Get("label")
	classes := make([]int64, 256)
	if err := label.ReadInt64(classes); err != nil || !x.SameShape([]int{256, 4}) {
		t.Fatalf("x %v, label %v: %v", x, label, err)
	}
	seen := map[int64]bool{}
	for _, c := range classes {
		seen[c] = true
	}
	if len(seen) != 2 || !seen[0] || !seen[1] {
		t.Errorf("classes %v, expected 0 and 1", seen)
	}
	if want := "  - {linear: [3, 2], name: \"2\"}\nloss"; !strings.Contains(o.modelYAML(), want) {
		t.Errorf("model\n%s\nexpected %q in it", o.modelYAML(), want)
	}
}
