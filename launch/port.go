package launch

import "fmt"

// reservation is the port for MASTER_PORT, held as far as the system allows.
type reservation struct {
	port int
	fd   int // -1: not held
}

// PortInUseError says that the port asked for MASTER_PORT is taken.
type PortInUseError struct {
	Port  int
	Owner string // "name (pid N)", if known
}

func (e *PortInUseError) Error() string {
	owner := "another process"
	if e.Owner != "" {
		owner = e.Owner
	}
	return fmt.Sprintf("launch: port %d, asked for as MASTER_PORT, is in use by %s; end that, or give --master-port another number, or 0 for a free one", e.Port, owner)
}
