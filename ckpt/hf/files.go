package hf

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxTextFile bounds what is read whole into memory: JSON and small companions.
const maxTextFile = 256 << 20

// fileSize is the size of a regular file that is not empty.
func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fileError(path, err)
	}
	if !info.Mode().IsRegular() {
		return 0, &FileError{Path: path, Problem: Damaged, Next: nextStep(path), Err: errors.New("it is not a regular file")}
	}
	if info.Size() == 0 {
		return 0, &FileError{Path: path, Problem: Empty, Next: nextStep(path)}
	}
	return info.Size(), nil
}

// exists reports whether something has this path; an error only if that is unknown.
func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	}
	return false, fileError(path, err)
}

// readFile reads a regular file that is not empty and not over maxTextFile.
func readFile(path string) ([]byte, error) {
	size, err := fileSize(path)
	if err != nil {
		return nil, err
	}
	if size > maxTextFile {
		return nil, &FileError{
			Path: path, Problem: Damaged, Next: nextStep(path),
			Err: fmt.Errorf("%d bytes are over the limit of %d for such a file", size, int64(maxTextFile)),
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	return data, nil
}

// hashFile reads a whole file and describes it.
func hashFile(ctx context.Context, path string) (FileInfo, error) {
	expected, err := fileSize(path)
	if err != nil {
		return FileInfo{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return FileInfo{}, fileError(path, err)
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.CopyBuffer(sum, readFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return f.Read(p)
	}), make([]byte, min(expected, 1<<20)))
	if err != nil {
		return FileInfo{}, fileError(path, err)
	}
	return FileInfo{Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// readFunc is a Read as an io.Reader.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
