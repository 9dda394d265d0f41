package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// testDeadline bounds every wait of the tests.
const testDeadline = 30 * time.Second

func tContext() context.Context { return context.Background() }

// fixture is a job of fake workers.
type fixture struct {
	Config
	out, err lineWatch
	signals  chan os.Signal
}

func newFixture(nproc int, ops ...string) *fixture {
	f := &fixture{signals: make(chan os.Signal, 8)}
	f.Config = Config{
		Program: os.Args[0], Args: ops, NProc: nproc, Env: []string{fakeKey + "=1", "GORACE=atexit_sleep_ms=0"},
		Stdout: &f.out, Stderr: &f.err, Signals: f.signals,
		Grace: -1, KillAfter: testDeadline,
	}
	return f
}

func (f *fixture) run(t *testing.T) *Report {
	t.Helper()
	return f.start(t).wait(t)
}

// running is a job that goes on beside the test.
type running struct {
	agent  *Agent
	result chan *Report
}

func (f *fixture) start(t *testing.T) *running {
	t.Helper()
	agent, err := New(f.Config)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{agent: agent, result: make(chan *Report, 1)}
	go func() {
		report, err := agent.Run(t.Context())
		if err != nil {
			t.Error(err)
		}
		r.result <- report
	}()
	return r
}

func (r *running) wait(t *testing.T) *Report {
	t.Helper()
	select {
	case report := <-r.result:
		if report == nil {
			t.FailNow()
		}
		return report
	case <-time.After(testDeadline):
		t.Fatalf("Run did not return after %s", testDeadline)
		return nil
	}
}

// text gives the report's text.
func text(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func wantCode(t *testing.T, r *Report, code int) {
	t.Helper()
	if r.ExitCode() != code {
		t.Errorf("exit code %d, expected %d; report:\n%s", r.ExitCode(), code, text(t, r))
	}
}

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("no FIFOs here: %v", err)
	}
	return path
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

func TestRunAllWell(t *testing.T) {
	f := newFixture(3, "out=hello", "err=world")
	var started, ended []int
	f.OnStart = func(rank, _ int) { started = append(started, rank) }
	f.OnExit = func(e Exit) { ended = append(ended, e.Rank) }
	r := f.run(t)
	wantCode(t, r, 0)
	if got := text(t, r); got != "" {
		t.Errorf("a good run has the report %q, expected none", got)
	}
	for rank := range 3 {
		for _, out := range []struct{ got, want string }{
			{f.out.String(), fmt.Sprintf("[rank%d]: hello\n", rank)},
			{f.err.String(), fmt.Sprintf("[rank%d]: world\n", rank)},
		} {
			if !strings.Contains(out.got, out.want) {
				t.Errorf("output %q lacks %q", out.got, out.want)
			}
		}
	}
	slices.Sort(ended)
	if !slices.Equal(started, []int{0, 1, 2}) || !slices.Equal(ended, started) {
		t.Errorf("started %v, ended %v, expected ranks 0 to 2 in both", started, ended)
	}
	for _, e := range r.Exits {
		if !e.OK() || !gone(e.PID) {
			t.Errorf("rank %d: %s, process gone: %v", e.Rank, e.How(), gone(e.PID))
		}
	}
}

func TestFirstFailureIsNamed(t *testing.T) {
	tests := []struct {
		name string
		n    int
		ops  []string
		code int
		rank int
		want []string
	}{
		{
			"exit code", 3,
			[]string{"1:err=boom: cannot go on", "1:exit=7", "block"},
			7, 1,
			[]string{"rank 1 (pid", "failed first", "exit code 7", "boom: cannot go on", "ranks 0, 2: ended by the launcher with SIGTERM"},
		},
		{"SIGKILL", 2, []string{"1:kill=KILL", "block"}, 137, 1, []string{"killed by SIGKILL\n  the launcher did not send this SIGKILL: ", "memory: this worker held up to ", "exit code 137"}},
		{"SIGTERM from outside", 2, []string{"0:kill=TERM", "block"}, 143, 0, []string{"someone sent SIGTERM"}},
		{"stdout when stderr is empty", 1, []string{"out=said on stdout", "exit=2"}, 2, 0, []string{"last lines on stdout", "said on stdout"}},
		{"error file", 1, []string{`errorfile={"message":{"message":"ValueError: no data","extraInfo":{}}}`, "exit=1"}, 1, 0, []string{"its error: ValueError: no data"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(tt.n, tt.ops...)
			r := f.run(t)
			wantCode(t, r, tt.code)
			if r.First == nil || r.First.Rank != tt.rank {
				t.Fatalf("first failure %+v, expected rank %d", r.First, tt.rank)
			}
			got := text(t, r)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("report lacks %q:\n%s", want, got)
				}
			}
			for _, e := range r.Exits {
				if e.Collateral != (e.Rank != tt.rank && !e.OK()) {
					t.Errorf("rank %d: collateral %v (%s)", e.Rank, e.Collateral, e.How())
				}
			}
		})
	}
}

// oneAfterTheOther runs first on rank 0, and, when the launcher has seen its
// end, has rank 1 exit with code.
func oneAfterTheOther(t *testing.T, first string, code int) *Report {
	t.Helper()
	f := newFixture(2, "1:catch=USR2,"+strconv.Itoa(code), "1:out=ready", "1:block", "peer="+fifo(t), first)
	f.Grace = testDeadline
	path := strings.TrimPrefix(f.Args[3], "peer=")
	ended := make(chan struct{})
	f.OnExit = func(e Exit) {
		if e.Rank == 0 {
			close(ended)
		}
	}
	run := f.start(t)
	f.out.await(t, "ready")
	start, err := os.OpenFile(path, os.O_WRONLY, 0) // rank 0 may go on
	if err != nil {
		t.Fatal(err)
	}
	must(start.Close())
	<-ended
	f.signals <- syscall.SIGUSR2
	return run.wait(t)
}

func TestResetOfAPeerIsNotFirst(t *testing.T) {
	r := oneAfterTheOther(t, "exit=3", 4)
	wantCode(t, r, 3)
	if got := text(t, r); r.First.Rank != 0 || !strings.Contains(got, "rank 1: exit code 4, by itself") {
		t.Errorf("report:\n%s", got)
	}
}

func TestFinishedRankIsNotCollateral(t *testing.T) {
	r := oneAfterTheOther(t, "exit=0", 5)
	wantCode(t, r, 5)
	if got := text(t, r); !strings.Contains(got, "rank 0: had finished") || r.Exits[0].Collateral {
		t.Errorf("report:\n%s", got)
	}
}
