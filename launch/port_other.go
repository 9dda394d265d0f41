//go:build unix && !linux

package launch

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// reservePort chooses or checks the port for MASTER_PORT. On this system a
// socket that is bound keeps others from binding, SO_REUSEADDR or not, so the
// port is released before the workers start and another program could take it
// in between; systems give free ports in turn, so two launches do not collide.
func reservePort(port int) (*reservation, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("launch: cannot choose a TCP port for MASTER_PORT: %w", err)
	}
	defer unix.Close(fd)
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Port: port}))
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, &PortInUseError{Port: port}
	}
	if err != nil {
		return nil, fmt.Errorf("launch: cannot choose a TCP port for MASTER_PORT: %w", err)
	}
	addr, err := unix.Getsockname(fd)
	if err != nil {
		return nil, fmt.Errorf("launch: cannot learn the chosen port: %w", err)
	}
	if a, ok := addr.(*unix.SockaddrInet4); ok {
		port = a.Port
	}
	return &reservation{port: port, fd: -1}, nil
}

func (r *reservation) close() {}
