package harness

import "syscall"

// processAttributes put a launcher into a process group of its own, so that a
// terminal's Ctrl-C reaches the harness alone, and end it with the thread that
// started it: the caller keeps that thread until the launcher has ended.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
