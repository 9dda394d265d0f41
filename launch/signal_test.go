package launch

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestGraceLetsSurvivorsEnd(t *testing.T) {
	path := fifo(t)
	f := newFixture(3, "1:hold="+path, "0:peer="+path, "1:exit=9", "0:err=rank 1 is gone", "0:exit=70", "block")
	f.Grace, f.PeerFailedCodes = 300*time.Millisecond, []int{70}
	r := f.run(t)
	wantCode(t, r, 9)
	for _, e := range r.Exits {
		if e.Rank == 0 && e.Sent != 0 {
			t.Errorf("rank 0 was sent %s though it ended by itself in the grace", e.Sent)
		}
		if e.Rank == 2 && e.Sent != syscall.SIGTERM {
			t.Errorf("rank 2 was sent %v, expected SIGTERM after the grace", e.Sent)
		}
	}
}

func TestWhoAccusesAnotherIsNotFirst(t *testing.T) {
	path := fifo(t)
	f := newFixture(2, "0:hold="+path, "1:peer="+path, "0:exit=70", "1:exit=8")
	f.Grace, f.PeerFailedCodes = testDeadline, []int{70}
	r := f.run(t) // rank 0 accuses another and ends; rank 1 fails after it
	wantCode(t, r, 8)
	if r.First.Rank != 1 {
		t.Errorf("first failure is rank %d, expected 1:\n%s", r.First.Rank, text(t, r))
	}
}

func TestOnlyAccusations(t *testing.T) {
	f := newFixture(1, "exit=70")
	f.PeerFailedCodes = []int{70}
	r := f.run(t)
	wantCode(t, r, 70)
	if got := text(t, r); !strings.Contains(got, "it says that another rank failed, but none had") {
		t.Errorf("report:\n%s", got)
	}
}

func TestFrozenRank(t *testing.T) {
	f := newFixture(3, "out=ready of it", "1:kill=STOP", "block")
	f.Grace = 50 * time.Millisecond
	pids := make(chan int, 3)
	f.OnStart = func(rank, pid int) {
		if rank == 1 {
			pids <- pid
		}
	}
	run := f.start(t)
	f.out.await(t, "[rank1]: ready")
	pid := <-pids
	for !strings.HasPrefix(processState(pid), "stopped") && processState(pid) != "" {
		if t.Context().Err() != nil {
			t.Fatal("rank 1 does not stop")
		}
	}
	run.agent.Fail(1, "no heartbeat for 5 s")
	run.agent.Fail(1, "again")
	run.agent.Fail(17, "unknown")
	r := run.wait(t)
	wantCode(t, r, ExitFrozen)
	if r.First == nil || r.First.Rank != 1 || !r.First.Frozen || r.First.Signal != syscall.SIGKILL {
		t.Fatalf("first failure %+v, expected rank 1, frozen, ended by SIGKILL", r.First)
	}
	got := text(t, r)
	for _, want := range []string{"rank 1 (pid", "no heartbeat for 5 s", "ranks 0, 2: ended by the launcher with SIGTERM", "exit code 124"} {
		if !strings.Contains(got, want) {
			t.Errorf("report lacks %q:\n%s", want, got)
		}
	}
	if processState(os.Getpid()) != "" && !strings.Contains(got, "stopped, by SIGSTOP") {
		t.Errorf("report does not say that the process was stopped:\n%s", got)
	}
}

func TestShutdownSignals(t *testing.T) {
	tests := []struct {
		sig  syscall.Signal
		code int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}, {syscall.SIGHUP, 129}}
	for _, tt := range tests {
		t.Run(tt.sig.String(), func(t *testing.T) {
			f := newFixture(2, "out=ready", "block")
			run := f.start(t)
			f.out.await(t, "[rank0]: ready")
			f.out.await(t, "[rank1]: ready")
			f.signals <- tt.sig
			r := run.wait(t)
			wantCode(t, r, tt.code)
			if r.First != nil || r.Interrupted != tt.sig {
				t.Errorf("first %v, interrupted by %v; expected none, %v", r.First, r.Interrupted, tt.sig)
			}
			for _, e := range r.Exits {
				if e.Signal != tt.sig {
					t.Errorf("rank %d %s, expected the same signal passed on", e.Rank, e.How())
				}
			}
		})
	}
}

func TestInterruptKillsWhoIgnoresIt(t *testing.T) {
	f := newFixture(2, "ignore=INT", "ignore=TERM", "out=ready", "block")
	f.InterruptAfter = 50 * time.Millisecond
	run := f.start(t)
	f.out.await(t, "[rank0]: ready")
	f.out.await(t, "[rank1]: ready")
	f.signals <- os.Interrupt
	r := run.wait(t)
	wantCode(t, r, 130)
	for _, e := range r.Exits {
		if e.Signal != syscall.SIGKILL || e.Sent != syscall.SIGKILL {
			t.Errorf("rank %d %s, expected SIGKILL", e.Rank, e.How())
		}
	}
}

func TestSecondSignalKillsAtOnce(t *testing.T) {
	f := newFixture(1, "note=INT", "out=ready", "block")
	f.InterruptAfter = testDeadline
	run := f.start(t)
	f.out.await(t, "ready")
	f.signals <- syscall.SIGINT
	f.out.await(t, "got INT")
	stop := time.AfterFunc(250*time.Millisecond, func() { f.signals <- syscall.SIGINT })
	defer stop.Stop()
	r := run.wait(t)
	wantCode(t, r, 130)
	if r.Exits[0].Signal != syscall.SIGKILL {
		t.Errorf("the worker's end: %s, expected SIGKILL", r.Exits[0].How())
	}
}

func TestContextEndsTheJob(t *testing.T) {
	f := newFixture(1, "out=ready", "block")
	agent, err := New(f.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan *Report, 1)
	go func() {
		r, _ := agent.Run(ctx)
		result <- r
	}()
	f.out.await(t, "ready")
	cancel()
	wantCode(t, (&running{result: result}).wait(t), 143)
	if _, err := agent.Run(t.Context()); !errors.Is(err, ErrRan) {
		t.Errorf("a second Run gives %v, expected ErrRan", err)
	}
	if _, err := Run(ctx, f.Config); !errors.Is(err, context.Canceled) {
		t.Errorf("Run in a cancelled context gives %v", err)
	}
}

func TestUserSignalsArePassedOnAndKillNobody(t *testing.T) {
	f := newFixture(2, "note=USR1", "out=ready", "catch=TERM,0", "block")
	run := f.start(t)
	f.out.await(t, "[rank0]: ready")
	f.out.await(t, "[rank1]: ready")
	f.signals <- syscall.SIGUSR1
	f.out.await(t, "[rank0]: got USR1")
	f.out.await(t, "[rank1]: got USR1")
	f.signals <- syscall.SIGTERM
	r := run.wait(t)
	wantCode(t, r, 143)
	if got := text(t, r); !strings.Contains(got, "exit code 0 after the launcher sent SIGTERM") {
		t.Errorf("report:\n%s", got)
	}
}

func TestUserSignalSparesWhoDoesNotHandleIt(t *testing.T) {
	if processState(os.Getpid()) == "" {
		t.Skip("no /proc: who handles a signal cannot be learnt")
	}
	f := newFixture(1, "echo ready; while :; do sleep 0.05; done")
	f.Program, f.Args = "/bin/sh", []string{"-c", f.Args[0]}
	run := f.start(t)
	f.out.await(t, "ready")
	f.signals <- syscall.SIGUSR2
	f.err.await(t, "SIGUSR2 was not passed on to rank 0")
	f.signals <- syscall.SIGTERM
	wantCode(t, run.wait(t), 143)
}

// launcher starts this test binary as a launcher of fake workers, by way of
// the command in front, if any.
func launcher(t *testing.T, front []string, args ...string) (*exec.Cmd, *lineWatch) {
	t.Helper()
	argv := append(append(front, os.Args[0]), args...)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	out := &lineWatch{}
	cmd.Env = append(os.Environ(), fakeKey+"=launcher", "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = testDeadline
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

func awaitGone(t *testing.T, what string, pid int) {
	t.Helper()
	deadline := time.Now().Add(testDeadline)
	for !gone(pid) && processState(pid) != "ended" {
		if time.Now().After(deadline) {
			t.Fatalf("%s (pid %d) still lives: %s", what, pid, processState(pid))
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestKilledLauncherTakesAllWithIt(t *testing.T) {
	cmd, out := launcher(t, nil, "1", "ignore=TERM", "child=ignore=TERM+out=child is up+block", "daemon=ignore=TERM+out=daemon is up+block", "pid", "block")
	for _, line := range []string{"child is up", "daemon is up", "pid "} {
		out.await(t, line)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	awaitGone(t, "the worker", out.number(t, "]: pid "))
	awaitGone(t, "its child", out.number(t, "]: child "))
	if processState(os.Getpid()) != "" {
		awaitGone(t, "its daemon", out.number(t, "]: daemon "))
	}
}

func TestLauncherSignals(t *testing.T) {
	tests := []struct {
		name string
		sig  syscall.Signal
		code int
	}{{"Ctrl-C", syscall.SIGINT, 130}, {"TERM", syscall.SIGTERM, 143}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd, out := launcher(t, nil, "2", "out=ready", "block")
			out.await(t, "[rank0]: ready")
			out.await(t, "[rank1]: ready")
			if err := cmd.Process.Signal(tt.sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != tt.code {
				t.Errorf("exit code %d, expected %d:\n%s", got, tt.code, out)
			}
		})
	}
}

func TestIgnoredHangUpStaysIgnored(t *testing.T) {
	nohup := []string{"/bin/sh", "-c", `trap '' HUP; exec "$@"`, "sh"}
	cmd, out := launcher(t, nohup, "1", "out=ready", "block")
	out.await(t, "ready")
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 143 {
		t.Errorf("exit code %d, expected 143: SIGHUP was to be ignored:\n%s", got, out)
	}
}
