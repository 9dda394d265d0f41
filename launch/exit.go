package launch

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Exit codes of the launcher's own.
const (
	ExitFailure    = 1   // the launcher itself failed
	ExitUsage      = 2   // a wrong configuration
	ExitFrozen     = 124 // a rank stopped answering
	ExitNotExec    = 126 // the program cannot be executed
	ExitNotFound   = 127 // the program is not found
	exitSignalBase = 128 // plus the signal's number
)

// Exit is how one worker ended.
type Exit struct {
	Rank, PID  int
	Code       int            // exit code; -1 when a signal killed it
	Signal     syscall.Signal // what killed it; 0 when it exited
	CoreDumped bool
	Left       bool          // SIGKILL did not end it; Code is -1
	Unknown    error         // why its end could not be learnt; Code is -1
	After      time.Duration // from the job's start
	PeakMemory int64         // bytes it held at most, with pages of mapped files; 0: unknown

	// Sent is the strongest signal that the launcher had sent to it before; 0: none.
	Sent syscall.Signal
	// Declared is the caller's reason when it declared the rank failed ([Agent.Fail]); "" otherwise.
	Declared string
	// Collateral: it ended unsuccessfully or at the launcher's request after
	// another rank had failed, or said that another failed (PeerFailedCodes).
	// In OnExit it tells what is known at that moment.
	Collateral bool
}

// OK reports that the worker exited by itself with code 0.
func (e Exit) OK() bool { return e.Code == 0 && e.Declared == "" }

// How says how the process ended: "exit code 7", "killed by SIGKILL".
func (e Exit) How() string {
	if e.Left {
		return "not ended by SIGKILL"
	}
	if e.Unknown != nil {
		return "ended in an unknown way (" + e.Unknown.Error() + ")"
	}
	if e.Signal == 0 {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	if e.CoreDumped {
		return "killed by " + signalName(e.Signal) + " (core dumped)"
	}
	return "killed by " + signalName(e.Signal)
}

// endedItself reports that the launcher had sent it nothing before its end.
func (e Exit) endedItself() bool { return e.Sent == 0 }

// code is what a shell would give as $?.
func (e Exit) code() int {
	if e.Signal != 0 {
		return exitSignalBase + int(e.Signal)
	}
	if e.Code < 0 {
		return ExitFailure
	}
	return e.Code
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig))
}
