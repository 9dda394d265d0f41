package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// reservePort chooses the port for MASTER_PORT and holds it until close.
//
// It binds a socket to the port on every address, with SO_REUSEADDR, and never
// listens. While it is held the kernel gives the port to nobody who asks for a
// free one, and a worker's rank 0 can still bind and listen, for a server sets
// SO_REUSEADDR too (torch's TCPStore, Go's net package, Python's servers).
// So the port is never released between choice and use; a program that binds
// without SO_REUSEADDR needs a port given by the user.
//
// A port that the user gave is checked in the same way and then let go.
func reservePort(port int) (*reservation, error) {
	fd, err := bindAny(port)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, &PortInUseError{Port: port, Owner: portOwner(port)}
	}
	if err != nil {
		return nil, fmt.Errorf("launch: cannot reserve a TCP port for MASTER_PORT: %w", err)
	}
	if port != 0 {
		return &reservation{port: port, fd: -1}, unix.Close(fd)
	}
	chosen, err := boundPort(fd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("launch: cannot learn the reserved port: %w", err), unix.Close(fd))
	}
	return &reservation{port: chosen, fd: fd}, nil
}

func (r *reservation) close() {
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
		r.fd = -1
	}
}

// bindAny binds to every IPv6 and IPv4 address, or to every IPv4 address on a
// system without IPv6.
func bindAny(port int) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.Bind(fd, &unix.SockaddrInet6{Port: port}))
		if err == nil {
			return fd, nil
		}
		_ = unix.Close(fd)
		if errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EACCES) {
			return -1, err
		}
	}
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Port: port}))
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func boundPort(fd int) (int, error) {
	addr, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	switch a := addr.(type) {
	case *unix.SockaddrInet6:
		return a.Port, nil
	case *unix.SockaddrInet4:
		return a.Port, nil
	}
	return 0, unix.EAFNOSUPPORT
}

// portOwner names the process that listens on port, "name (pid N)"; "" when
// that cannot be learnt, as for another user's process.
func portOwner(port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err == nil {
			listeners(data, port, inodes)
		}
	}
	if len(inodes) == 0 {
		return ""
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		target, err := os.Readlink(link)
		if err == nil && inodes[target] {
			pid := strings.Split(link, "/")[2]
			name, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
			return fmt.Sprintf("%s (pid %s)", bytes.TrimSpace(name), pid)
		}
	}
	return ""
}

// listeners adds "socket:[inode]" of each listening socket on port, from a
// table in the format of /proc/net/tcp.
func listeners(table []byte, port int, inodes map[string]bool) {
	const stateListen = "0A"
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != stateListen {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		if n, err := strconv.ParseUint(hex, 16, 16); err == nil && int(n) == port {
			inodes["socket:["+f[9]+"]"] = true
		}
	}
}
