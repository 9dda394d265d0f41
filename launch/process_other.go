//go:build unix && !linux

package launch

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxrssUnit is the unit of ru_maxrss, in bytes: macOS's.
const maxrssUnit = 1

// workerSysProcAttr puts a worker in a session of its own. There is no
// PDEATHSIG here: the guardian alone ends the workers of a killed launcher.
func workerSysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// awaitExit does nothing: waitid is not dependable here (golang.org/issue/19314),
// so the worker is reaped first and its group signalled right after.
func awaitExit(int) (zombie bool) { return false }

func hasExited(int) bool { return false }

func reapGroup(int) {}

// groupEmpty: macOS answers EPERM for a group of zombies.
func groupEmpty(killErr error) bool {
	return errors.Is(killErr, unix.ESRCH) || errors.Is(killErr, unix.EPERM)
}

func adoptOrphans() {}

func releaseOrphans() {}
