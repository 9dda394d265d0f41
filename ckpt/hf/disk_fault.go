//go:build rejoin_fault

package hf

import (
	"path/filepath"
	"strings"

	"rejoin/internal/fault"
)

func systemDisk() disk { return pointDisk{} }

// pointDisk is the file system with a named point before each call: the call
// and the base name, without a temporary name's random end.
type pointDisk struct{ osDisk }

func at(call, path string) error {
	base := filepath.Base(path)
	if ownTemporary.MatchString(base) {
		base = base[:strings.LastIndex(base, "-")]
	}
	return fault.At(call + " " + base)
}

func (d pointDisk) mkdirAll(path string) error {
	if err := at("mkdirAll", path); err != nil {
		return err
	}
	return d.osDisk.mkdirAll(path)
}

func (d pointDisk) mkdir(path string) error {
	if err := at("mkdir", path); err != nil {
		return err
	}
	return d.osDisk.mkdir(path)
}

func (d pointDisk) create(path string) (diskFile, error) {
	if err := at("create", path); err != nil {
		return nil, err
	}
	f, err := d.osDisk.create(path)
	if err != nil {
		return nil, err
	}
	return pointFile{f, path}, nil
}

func (d pointDisk) rename(from, to string) error {
	if err := at("rename", to); err != nil {
		return err
	}
	return d.osDisk.rename(from, to)
}

func (d pointDisk) exchange(a, b string) error {
	if err := at("exchange", b); err != nil {
		return err
	}
	return d.osDisk.exchange(a, b)
}

func (d pointDisk) removeAll(path string) error {
	if err := at("removeAll", path); err != nil {
		return err
	}
	return d.osDisk.removeAll(path)
}

func (d pointDisk) removeEmpty(path string) error {
	if err := at("removeEmpty", path); err != nil {
		return err
	}
	return d.osDisk.removeEmpty(path)
}

func (d pointDisk) syncDir(path string) error {
	if err := at("syncDir", path); err != nil {
		return err
	}
	return d.osDisk.syncDir(path)
}

type pointFile struct {
	diskFile
	path string
}

// Write writes half when it is to fail, or to be the last.
func (f pointFile) Write(p []byte) (int, error) {
	n, err := f.diskFile.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	if err := at("write", f.path); err != nil {
		return n, err
	}
	m, err := f.diskFile.Write(p[n:])
	return n + m, err
}

func (f pointFile) Sync() error {
	if err := at("sync", f.path); err != nil {
		return err
	}
	return f.diskFile.Sync()
}

func (f pointFile) Close() error {
	err := f.diskFile.Close()
	if fault := at("close", f.path); fault != nil {
		return fault
	}
	return err
}
