package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const noRace = "-race=false"

// bin is where TestMain put launch and worker, built as users build them.
var bin string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	// Signals that nohup, or a shell's background job, made this test ignore would
	// stay ignored in the programs.
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	// Programs built with the race detector sleep for a second before they exit.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		return 1, err
	}
	bin, err = os.MkdirTemp("", "rejoin-bin-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bin)) }()
	if err := build(bin, raceFlag); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func build(dir, raceFlag string) error {
	cmd := exec.CommandContext(context.Background(), "go", "build", raceFlag, "-o", dir+string(filepath.Separator), "rejoin/cmd/launch", "rejoin/cmd/worker")
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.New("building the programs: " + err.Error() + "\n" + string(out))
	}
	return nil
}

// withoutRaceDetector gives this test programs whose memory is their own: the
// race detector's is many times theirs.
func withoutRaceDetector(t *testing.T) {
	t.Helper()
	if raceFlag == noRace {
		return
	}
	before := bin
	bin = t.TempDir()
	t.Cleanup(func() { bin = before })
	if err := build(bin, noRace); err != nil {
		t.Fatal(err)
	}
}

// hangTime is far beyond what any program here takes, and within the test
// binary's own deadline.
const hangTime = 2 * time.Minute

// ended is how a launch ended.
type ended struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

// running is a launch under way.
type running struct {
	cmd    *exec.Cmd
	lines  chan string // of stdout, as they come; closed at its end
	stdout bytes.Buffer
	stderr bytes.Buffer
	begun  time.Time
}

// start starts launch with args in the repository's root, where the README's
// commands run.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	return startProgram(t, filepath.Join(bin, "launch"), args...)
}

// startProgram is start for a program that becomes launch.
func startProgram(t *testing.T, program string, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangTime)
	t.Cleanup(cancel)
	r := &running{cmd: exec.CommandContext(ctx, program, args...), lines: make(chan string, 1<<16), begun: time.Now()}
	r.cmd.Dir = filepath.Join("..", "..")
	r.cmd.Stderr = &r.stderr
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.lines)
		in := bufio.NewScanner(io.TeeReader(out, &r.stdout))
		for in.Scan() {
			r.lines <- in.Text()
		}
	}()
	return r
}

// waitForLine returns when launch has printed a line with part in it.
func (r *running) waitForLine(t *testing.T, part string) {
	t.Helper()
	for line := range r.lines {
		if strings.Contains(line, part) {
			return
		}
	}
	_ = r.cmd.Wait()
	t.Fatalf("launch ended without printing %q:\n%s%s", part, r.stdout.String(), r.stderr.String())
}

// wait returns when launch has ended.
func (r *running) wait(t *testing.T) ended {
	t.Helper()
	for range r.lines {
	}
	err := r.cmd.Wait()
	e := ended{code: r.cmd.ProcessState.ExitCode(), stdout: r.stdout.String(), stderr: r.stderr.String(), took: time.Since(r.begun)}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if e.took >= hangTime {
		t.Fatalf("launch %v hung:\n%s%s", r.cmd.Args[1:], e.stdout, e.stderr)
	}
	return e
}

// run runs launch to its end.
func run(t *testing.T, args ...string) ended {
	t.Helper()
	return start(t, args...).wait(t)
}

// wants checks an exit code and that parts are in what was printed.
func (e ended) wants(t *testing.T, code int, parts ...string) {
	t.Helper()
	if e.code != code {
		t.Errorf("exit code %d, want %d", e.code, code)
	}
	for _, part := range parts {
		if !strings.Contains(e.stdout+e.stderr, part) {
			t.Errorf("nothing printed says %q", part)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", e.stdout, e.stderr)
	}
}
