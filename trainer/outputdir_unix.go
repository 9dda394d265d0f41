//go:build unix

package trainer

import "golang.org/x/sys/unix"

// writable asks the system whether this process may make files in dir.
func writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }
