//go:build linux || darwin

package hf

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

func (osDisk) syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems have nothing to sync in a directory and say EINVAL.
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

func (osDisk) lock(dir string) (io.Closer, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return d, nil
	}
	d.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errLocked
	}
	return nil, errNoLock
}

func (osDisk) free(path string) (uint64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, false
	}
	return uint64(st.Bavail) * uint64(st.Bsize), true //nolint:unconvert // the types differ between systems
}

// isFull reports whether err says that no more bytes fit: on the disk, within
// the quota, or within the process's limit on a file's size.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// exchangeError tells "not here" from a failure.
func exchangeError(err error) error {
	for _, unsupported := range []error{unix.EINVAL, unix.ENOSYS, unix.ENOTSUP, unix.EPERM} {
		if errors.Is(err, unsupported) {
			return errNoExchange
		}
	}
	return err
}
