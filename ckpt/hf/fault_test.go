package hf

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
)

var errKilled = errors.New("the process is dead")

// faultDisk is the real file system with one fault: its call number failAt
// returns err. If kill is set, the process is as dead from there on: half of a
// write is done, and every later call fails, those that clean up included.
type faultDisk struct {
	osDisk
	failAt     int // from 1; 0 for never
	err        error
	kill       bool
	noExchange bool
	noLock     bool
	freeBytes  uint64 // 0 for unknown
	reached    func() // called at call number failAt, before it happens

	mu    sync.Mutex
	calls []string // what was called: operation and base name
	dead  bool
	locks []io.Closer
}

// step counts a call and decides its fate.
func (d *faultDisk) step(operation, path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return errKilled
	}
	d.calls = append(d.calls, operation+" "+withoutSuffix(filepath.Base(path)))
	if len(d.calls) != d.failAt {
		return nil
	}
	if d.reached != nil {
		d.reached()
	}
	d.dead = d.kill
	return d.err
}

// withoutSuffix cuts the random part of a temporary name.
func withoutSuffix(base string) string {
	if ownTemporary.MatchString(base) {
		return base[:strings.LastIndex(base, "-")]
	}
	return base
}

// exit does what the end of a process does to locks.
func (d *faultDisk) exit() {
	for _, l := range d.locks {
		_ = l.Close() // the writer may have closed it itself
	}
}

func (d *faultDisk) mkdirAll(path string) error {
	if err := d.step("mkdirAll", path); err != nil {
		return err
	}
	return d.osDisk.mkdirAll(path)
}

func (d *faultDisk) mkdir(path string) error {
	if err := d.step("mkdir", path); err != nil {
		return err
	}
	return d.osDisk.mkdir(path)
}

func (d *faultDisk) create(path string) (diskFile, error) {
	if err := d.step("create", path); err != nil {
		return nil, err
	}
	f, err := d.osDisk.create(path)
	if err != nil {
		return nil, err
	}
	return &faultFile{f, d, path}, nil
}

func (d *faultDisk) rename(from, to string) error {
	if err := d.step("rename", to); err != nil {
		return err
	}
	return d.osDisk.rename(from, to)
}

func (d *faultDisk) exchange(a, b string) error {
	if d.noExchange {
		return errNoExchange
	}
	if err := d.step("exchange", b); err != nil {
		return err
	}
	return d.osDisk.exchange(a, b)
}

func (d *faultDisk) removeAll(path string) error {
	if err := d.step("removeAll", path); err != nil {
		return err
	}
	return d.osDisk.removeAll(path)
}

func (d *faultDisk) removeEmpty(path string) error {
	if err := d.step("removeEmpty", path); err != nil {
		return err
	}
	return d.osDisk.removeEmpty(path)
}

// Syncs are noted and, for speed, not done: no machine goes down in a test.
func (d *faultDisk) syncDir(path string) error { return d.step("syncDir", path) }

func (d *faultDisk) lock(dir string) (io.Closer, error) {
	if d.noLock {
		return nil, errNoLock
	}
	l, err := d.osDisk.lock(dir)
	if err == nil {
		d.locks = append(d.locks, l)
	}
	return l, err
}

func (d *faultDisk) free(string) (uint64, bool) { return d.freeBytes, d.freeBytes > 0 }

type faultFile struct {
	diskFile
	disk *faultDisk
	path string
}

func (f *faultFile) Write(p []byte) (int, error) {
	if err := f.disk.step("write", f.path); err != nil {
		n, _ := f.diskFile.Write(p[:len(p)/2])
		return n, err
	}
	return f.diskFile.Write(p)
}

func (f *faultFile) Sync() error { return f.disk.step("sync", f.path) }

func (f *faultFile) Close() error {
	err := f.diskFile.Close() // the end of a process closes it, too
	if fault := f.disk.step("close", f.path); fault != nil {
		return fault
	}
	return err
}
