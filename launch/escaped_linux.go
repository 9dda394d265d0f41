package launch

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxEnviron bounds what is read of a process's environment: the kernel's
// usual limit for arguments and environment together.
const maxEnviron = 2 << 20

// findMarked gives the processes that carry the cookie in their environment.
func findMarked(cookie string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	mark := []byte(cookieKey + "=" + cookie + "\x00")
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err == nil && pid != os.Getpid() && hasMark(entry.Name(), mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func hasMark(pid string, mark []byte) bool {
	f, err := os.Open(filepath.Join("/proc", pid, "environ"))
	if err != nil {
		return false
	}
	defer f.Close()
	env, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return false
	}
	at := bytes.Index(env, mark)
	return at == 0 || at > 0 && env[at-1] == 0
}

// signalEscaped signals each process.
func signalEscaped(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		_ = unix.Kill(pid, sig)
	}
}

// reapEscaped reaps those processes that this one adopted and that have ended,
// and gives those that it adopted and that have not. A process that is just
// ending has no environment any more, so findMarked misses it.
func reapEscaped(pids []int) (alive []int) {
	for _, pid := range pids {
		got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		for errors.Is(err, unix.EINTR) {
			got, err = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		if err == nil && got == 0 {
			alive = append(alive, pid)
		}
	}
	return alive
}

// processState says in words what a live process is doing, from /proc/PID/stat; "" if unknown.
func processState(pid int) string {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	return stateOf(stat)
}

func stateOf(stat []byte) string {
	// pid (name) S …, where the name may hold parentheses.
	_, rest, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	if !ok || len(rest) == 0 {
		return ""
	}
	switch rest[0] {
	case 'T', 't':
		return "stopped, by SIGSTOP or a debugger"
	case 'D':
		return "waiting for a disk or a network file system"
	case 'R':
		return "running"
	case 'S':
		return "sleeping"
	case 'Z', 'X':
		return "ended"
	}
	return ""
}

// catches reports whether the process handles or ignores sig, so that sending
// it does not kill; true when that cannot be learnt.
func catches(pid int, sig syscall.Signal) bool {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return true
	}
	return maskHas(status, "SigCgt:", sig) || maskHas(status, "SigIgn:", sig)
}

func maskHas(status []byte, field string, sig syscall.Signal) bool {
	_, rest, ok := bytes.Cut(status, []byte("\n"+field))
	if !ok {
		return true
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return err != nil || mask>>(uint(sig)-1)&1 == 1
}
