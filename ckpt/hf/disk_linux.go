package hf

import "golang.org/x/sys/unix"

func (osDisk) exchange(a, b string) error {
	return exchangeError(unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE))
}
