// Package mapped opens a file as a read-only memory mapping, so that opening a
// large checkpoint costs no copy and ranks of one host share its pages.
//
// The bytes must not be written to, nor used after Close. A file that another
// process cuts while it is mapped is outside of what this package can survive.
package mapped

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/edsrzf/mmap-go"
)

// File is a mapped file.
type File struct {
	// Data is the whole file; nil if it is empty.
	Data []byte
	mmap mmap.MMap
}

// Open maps the regular file at path.
func Open(path string) (*File, error) {
	info, err := os.Stat(path) // before opening: that waits on a pipe without a writer
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("is a directory, expected a file")}
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("is not a regular file")}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return &File{}, nil // mmap refuses a length of 0
	}
	m, err := mmap.Map(f, mmap.RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("map %s into memory: %w", path, err)
	}
	return &File{Data: m, mmap: m}, nil
}

// Close unmaps the file. A second call does nothing.
func (f *File) Close() error {
	m := f.mmap
	if m == nil {
		return nil
	}
	f.Data, f.mmap = nil, nil
	return m.Unmap()
}
