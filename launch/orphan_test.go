package launch

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A worker's child, in its group or out of it, ends with the job, and holds no pipe
// open for ever, whether the worker ends well or badly.
func TestChildrenEndWithTheirWorker(t *testing.T) {
	tests := []struct {
		name, op string
		code     int
		ops      []string
		killed   bool // SIGTERM does not end it
	}{
		{"in the group", "child", 0, []string{"child=up+block", "hear", "exit=0"}, false},
		{"in the group, deaf", "child", 3, []string{"child=ignore=TERM+up+block", "hear", "exit=3"}, true},
		{"in its own session", "daemon", 0, []string{"daemon=up+block", "hear", "exit=0"}, false},
		{"in its own session, deaf", "daemon", 3, []string{"daemon=ignore=TERM+up+block", "hear", "exit=3"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.op == "daemon" && processState(os.Getpid()) == "" {
				t.Skip("no /proc: a process that left its session is not found")
			}
			f := newFixture(1, tt.ops...)
			if tt.killed {
				f.KillAfter = 50 * time.Millisecond
			}
			r := f.run(t)
			wantCode(t, r, tt.code)
			if pid := f.out.number(t, tt.op+" "); !gone(pid) {
				t.Errorf("the child (pid %d) is %s after Run", pid, processState(pid))
			}
			if len(r.Left) != 0 {
				t.Errorf("left behind: %v", r.Left)
			}
		})
	}
}

// Interrupted while only a deaf child of an ended worker is left: all workers
// had finished, so the job is done.
func TestSignalWhileChildrenLinger(t *testing.T) {
	f := newFixture(1, "child=ignore=TERM+ignore=INT+up+block", "hear", "exit=0")
	f.KillAfter, f.InterruptAfter = testDeadline, 20*time.Millisecond
	ended := make(chan struct{})
	f.OnExit = func(Exit) { close(ended) }
	run := f.start(t)
	<-ended
	f.signals <- syscall.SIGINT
	wantCode(t, run.wait(t), 0)
}

func TestNoZombieIsLeft(t *testing.T) {
	if processState(os.Getpid()) == "" {
		t.Skip("no /proc")
	}
	f := newFixture(3, "child=up+block", "daemon=up+block", "hear", "hear", "exit=1")
	r := f.run(t)
	wantCode(t, r, 1)
	for _, e := range r.Exits {
		if state := processState(e.PID); state != "" {
			t.Errorf("rank %d (pid %d) is still there: %s", e.Rank, e.PID, state)
		}
	}
	for line := range strings.SplitSeq(f.out.String(), "\n") {
		_, line, _ = strings.Cut(line, "]: ")
		if kind, pid, ok := strings.Cut(line, " "); ok && (kind == "child" || kind == "daemon") {
			if state := processState(atoi(t, pid)); state != "" {
				t.Errorf("%s %s is still there: %s", kind, pid, state)
			}
		}
	}
}
