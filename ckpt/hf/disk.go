package hf

import (
	"errors"
	"io"
	"os"
)

// A disk is everything that a Writer does to the file system, so that tests
// can make each call fail.
type disk interface {
	mkdirAll(path string) error
	mkdir(path string) error
	create(path string) (diskFile, error)
	rename(from, to string) error
	// exchange swaps two names at once; errNoExchange where that cannot be done.
	exchange(a, b string) error
	removeAll(path string) error
	removeEmpty(dir string) error
	syncDir(path string) error
	// lock takes the sole lock on a directory, which ends with the process at
	// the latest; errLocked if another has it, errNoLock where there are none.
	lock(dir string) (io.Closer, error)
	// free is the number of bytes that can still be written under path.
	free(path string) (bytes uint64, known bool)
}

type diskFile interface {
	io.Writer
	Sync() error
	Close() error
}

var (
	errNoExchange = errors.New("names cannot be exchanged here")
	errLocked     = errors.New("locked by another process")
	errNoLock     = errors.New("directories cannot be locked here")
)

// osDisk is the real file system. Modes follow the umask, as the Trainer's do.
type osDisk struct{}

func (osDisk) mkdirAll(path string) error { return os.MkdirAll(path, 0o777) }
func (osDisk) mkdir(path string) error    { return os.Mkdir(path, 0o777) }

func (osDisk) create(path string) (diskFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) removeAll(path string) error  { return os.RemoveAll(path) }
func (osDisk) removeEmpty(dir string) error { return os.Remove(dir) }
