package launch

import (
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"
)

func TestStateOf(t *testing.T) {
	tests := []struct{ stat, want string }{
		{"17 (worker) T 1 17 17 0", "stopped, by SIGSTOP or a debugger"},
		{"17 (a) b) R (c) S 1 17", "sleeping"},
		{"17 (worker) D 1", "waiting for a disk or a network file system"},
		{"17 (worker) R 1", "running"},
		{"17 (worker) Z 1", "ended"},
		{"17 (worker) ? 1", ""},
		{"17 (worker)", ""},
		{"junk", ""},
		{"", ""},
	}
	for _, tt := range tests {
		if got := stateOf([]byte(tt.stat)); got != tt.want {
			t.Errorf("%q: %q, expected %q", tt.stat, got, tt.want)
		}
	}
	if got := processState(1 << 30); got != "" {
		t.Errorf("a process that is not there is %q", got)
	}
}

func TestMaskHas(t *testing.T) {
	status := []byte("Name:\tx\nSigIgn:\t0000000000001000\nSigCgt:\t0000000180000201\n")
	tests := []struct {
		field string
		sig   syscall.Signal
		want  bool
	}{
		{"SigCgt:", syscall.SIGHUP, true},
		{"SigCgt:", syscall.SIGUSR1, true},
		{"SigCgt:", syscall.SIGUSR2, false},
		{"SigIgn:", syscall.SIGPIPE, true},
		{"SigIgn:", syscall.SIGUSR1, false},
		{"SigXyz:", syscall.SIGUSR1, true}, // unknown: do not hold the signal back
	}
	for _, tt := range tests {
		if got := maskHas(status, tt.field, tt.sig); got != tt.want {
			t.Errorf("%s %s: %v, expected %v", tt.field, signalName(tt.sig), got, tt.want)
		}
	}
	if !catches(1<<30, syscall.SIGUSR1) {
		t.Error("of a process that is not there nothing is known")
	}
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGUSR1)
	defer signal.Stop(ch)
	if !catches(os.Getpid(), syscall.SIGUSR1) {
		t.Error("this process catches SIGUSR1")
	}
}

func TestMarkedProcessesAreFound(t *testing.T) {
	cookie := randomHex()
	if got := findMarked(cookie); len(got) != 0 {
		t.Fatalf("found %v with a fresh mark", got)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.CommandContext(t.Context(), "/bin/cat")
	cmd.Stdin = r
	cmd.Env = []string{"A=" + cookieKey + "=" + cookie, cookieKey + "=" + cookie + "0", "B=1"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if got := findMarked(cookie); len(got) != 0 {
		t.Errorf("found %v, whose variables only resemble the mark", got)
	}
	if got := findMarked(cookie + "0"); !slices.Equal(got, []int{cmd.Process.Pid}) {
		t.Errorf("found %v, expected %d", got, cmd.Process.Pid)
	}
	if got := reapEscaped([]int{cmd.Process.Pid, 1}); !slices.Equal(got, []int{cmd.Process.Pid}) {
		t.Errorf("alive and adopted: %v, expected %d", got, cmd.Process.Pid)
	}
	_ = w.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// The process is a subreaper only while an agent runs.
func TestOrphansAreReleased(t *testing.T) {
	adoptOrphans()
	adoptOrphans()
	releaseOrphans()
	if subreaper.agents != 1 {
		t.Errorf("%d agents, expected 1", subreaper.agents)
	}
	releaseOrphans()
	if subreaper.agents != 0 || subreaper.before != 0 {
		t.Errorf("%d agents, before %d; expected 0, 0", subreaper.agents, subreaper.before)
	}
}
