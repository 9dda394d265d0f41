package launch

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReportText(t *testing.T) {
	tests := []struct {
		name string
		r    Report
		want string
	}{
		{"all well", Report{NProc: 2, Exits: []Exit{{Rank: 0}, {Rank: 1}}}, ""},
		{"a failure", Report{
			First: &Failure{
				Exit:    Exit{Rank: 1, PID: 42, Code: 7, After: 1234 * time.Millisecond},
				Message: "ValueError: bad\nrow 3", Tail: []string{"Traceback", "  ValueError: bad"}, Stream: "stderr",
			},
			Exits: []Exit{
				{Rank: 3},
				{Rank: 1, PID: 42, Code: 7},
				{Rank: 4, Code: 1, Collateral: true},
				{Rank: 2, Code: -1, Signal: syscall.SIGTERM, Sent: syscall.SIGTERM, Collateral: true},
				{Rank: 0, Code: -1, Signal: syscall.SIGTERM, Sent: syscall.SIGTERM, Collateral: true},
				{Rank: 5, Code: 0, Sent: syscall.SIGTERM, Collateral: true},
			},
			LogDir: "/logs/job_1", code: 7,
		}, `launch: rank 1 (pid 42) failed first, after 1.23 s: exit code 7
  its error: ValueError: bad
    row 3
  its last lines on stderr:
    Traceback
      ValueError: bad
  the others:
    rank 3: had finished
    rank 4: exit code 1, by itself
    ranks 0, 2: ended by the launcher with SIGTERM
    rank 5: exit code 0 after the launcher sent SIGTERM
  logs: /logs/job_1
`},
		{"a crash", Report{
			First: &Failure{Exit: Exit{Rank: 0, PID: 9, Code: -1, Signal: syscall.SIGSEGV, CoreDumped: true}, Hint: "a hint"},
			Exits: []Exit{{Rank: 0, PID: 9, Code: -1, Signal: syscall.SIGSEGV}}, code: 139,
		}, `launch: rank 0 (pid 9) failed first, after 0.00 s: killed by SIGSEGV (core dumped)
  a hint
  exit code 139
`},
		{"a frozen rank that cannot be killed", Report{
			First: &Failure{Exit: Exit{Rank: 0, PID: 9, Code: -1, Left: true, Declared: "no heartbeat for 5 s"}, Frozen: true},
			Exits: []Exit{{Rank: 1, Code: -1, Signal: syscall.SIGKILL, Sent: syscall.SIGKILL}, {Rank: 0, PID: 9, Code: -1, Left: true}},
			Left:  []int{9, 11}, code: ExitFrozen,
		}, `launch: rank 0 (pid 9) failed first: no heartbeat for 5 s
  the others:
    rank 1: ended by the launcher with SIGKILL
launch: these processes could not be ended: pid 9, 11
  exit code 124
`},
		{"interrupted", Report{
			Interrupted: syscall.SIGINT, Elapsed: 2 * time.Second, code: 130,
			Exits: []Exit{{Rank: 0, Code: 1, Sent: syscall.SIGINT}, {Rank: 1, Code: -1, Left: true, Sent: syscall.SIGKILL}},
		}, `launch: ended by SIGINT after 2.00 s
    rank 0: exit code 1 after the launcher sent SIGINT
    rank 1: not ended by SIGKILL
  exit code 130
`},
		{
			"lost output",
			Report{OutputErr: errors.Join(errors.New("disk full"), errors.New("file closed"))},
			"launch: output was lost: disk full; file closed\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			n, err := tt.r.WriteTo(&b)
			if err != nil || int(n) != b.Len() {
				t.Errorf("%d bytes, %v", n, err)
			}
			if b.String() != tt.want {
				t.Errorf("got:\n%s\nexpected:\n%s", b.String(), tt.want)
			}
		})
	}
}

func TestExitWords(t *testing.T) {
	tests := []struct {
		e    Exit
		how  string
		code int
		ok   bool
	}{
		{Exit{}, "exit code 0", 0, true},
		{Exit{Code: 3}, "exit code 3", 3, false},
		{Exit{Code: -1, Signal: syscall.SIGKILL}, "killed by SIGKILL", 137, false},
		{Exit{Code: -1, Signal: syscall.Signal(63)}, "killed by signal 63", 191, false},
		{Exit{Code: -1, Unknown: errors.New("no child processes")}, "ended in an unknown way (no child processes)", 1, false},
		{Exit{Code: -1, Left: true}, "not ended by SIGKILL", 1, false},
		{Exit{Declared: "frozen"}, "exit code 0", 0, false},
	}
	for _, tt := range tests {
		if tt.e.How() != tt.how || tt.e.code() != tt.code || tt.e.OK() != tt.ok {
			t.Errorf("%+v: %q, %d, %v; expected %q, %d, %v", tt.e, tt.e.How(), tt.e.code(), tt.e.OK(), tt.how, tt.code, tt.ok)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	tests := []struct {
		err  error
		want []string
	}{
		{&ConfigError{"NProc", "0 workers"}, []string{"launch: NProc: 0 workers"}},
		{&PortInUseError{Port: 29500}, []string{"port 29500", "in use by another process", "--master-port"}},
		{&PortInUseError{Port: 29500, Owner: "python (pid 3)"}, []string{"in use by python (pid 3)"}},
		{&WorkerNotFoundError{Looked: []string{"/a/worker", "/b/worker"}}, []string{"/a/worker or /b/worker", "PATH"}},
		{&StartError{Rank: 2, Program: "/p", Err: syscall.EACCES}, []string{"rank 2", "/p", "permission denied", "chmod +x"}},
	}
	for _, tt := range tests {
		for _, want := range tt.want {
			if !strings.Contains(tt.err.Error(), want) {
				t.Errorf("%q lacks %q", tt.err, want)
			}
		}
	}
}
