package launch

import (
	"errors"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxrssUnit is the unit of ru_maxrss, in bytes.
const maxrssUnit = 1 << 10

// workerSysProcAttr puts a worker in a session of its own, as torchrun does, and
// has the kernel kill it when the spawning thread ends.
func workerSysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit blocks until pid, a child, has ended, and leaves it a zombie, so
// that its number stays its own; false if the kernel refuses to.
func awaitExit(pid int) (zombie bool) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

// hasExited reports that pid, a child, is a zombie.
func hasExited(pid int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && info.Signo == int32(unix.SIGCHLD)
		}
	}
}

// reapGroup reaps the ended processes of a group that this process adopted.
func reapGroup(pgid int) {
	for {
		pid, err := unix.Wait4(-pgid, nil, unix.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func groupEmpty(killErr error) bool { return errors.Is(killErr, unix.ESRCH) }

// subreaper counts the running agents; while there is one, orphaned descendants
// of this process become its children, so that they are reaped even in a
// container whose first process reaps nothing.
var subreaper struct {
	sync.Mutex
	agents int
	before int32 // what the process had chosen itself
}

func adoptOrphans() {
	subreaper.Lock()
	defer subreaper.Unlock()
	if subreaper.agents++; subreaper.agents > 1 {
		return
	}
	subreaper.before = 0
	_ = unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&subreaper.before)), 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

func releaseOrphans() {
	subreaper.Lock()
	defer subreaper.Unlock()
	if subreaper.agents--; subreaper.agents == 0 {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, uintptr(subreaper.before), 0, 0, 0)
	}
}
