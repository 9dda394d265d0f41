//go:build !linux

package harness

import "syscall"

// processAttributes put a launcher into a process group of its own, so that a
// terminal's Ctrl-C reaches the harness alone.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
