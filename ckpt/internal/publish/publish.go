// Package publish gives finished files their final names: what is written stands
// in a temporary file beside the final name until it is whole and on the disk.
// A final name is always the old file or the new one.
package publish

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ExistsError says that a file is there already and may not be replaced.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s is there already and is left as it is; choose another name, or replace it with --force", e.Path)
}

// A Set is files that are published together, in the order in which they were
// added. Call Abort in the end; it does nothing after Commit.
type Set struct {
	replace bool
	files   []file
}

type file struct{ temporary, final string }

// New makes a set; replace lets it take the place of files that are there.
func New(replace bool) *Set { return &Set{replace: replace} }

// Write writes one file beside its final name and makes it durable. It fails
// early with an *[ExistsError].
func (s *Set) Write(ctx context.Context, final string, write func(io.Writer) error) error {
	if err := s.free(final); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(final), "."+filepath.Base(final)+".tmp-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", final, err)
	}
	s.files = append(s.files, file{f.Name(), final})
	buffered := bufio.NewWriterSize(&cancellable{ctx, f}, 1<<20)
	if err = write(buffered); err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", final, err)
	}
	return nil
}

func (s *Set) free(final string) error {
	if s.replace {
		return nil
	}
	_, err := os.Lstat(final)
	switch {
	case err == nil:
		return &ExistsError{final}
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// Commit gives the files their names.
func (s *Set) Commit() error {
	for len(s.files) > 0 {
		if err := s.publish(s.files[0]); err != nil {
			return err
		}
		s.files = s.files[1:]
	}
	return nil
}

// publish links, which cannot replace a file that came up meanwhile; a file
// system without links falls back on a rename.
func (s *Set) publish(f file) error {
	if !s.replace {
		err := os.Link(f.temporary, f.final)
		if err == nil {
			return errors.Join(os.Remove(f.temporary), syncDir(filepath.Dir(f.final)))
		}
		if errors.Is(err, fs.ErrExist) {
			return &ExistsError{f.final}
		}
		if err := s.free(f.final); err != nil {
			return err
		}
	}
	if err := os.Rename(f.temporary, f.final); err != nil {
		return err
	}
	return syncDir(filepath.Dir(f.final))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems cannot sync a directory; the names are there all the same.
	_ = d.Sync()
	return nil
}

// Abort removes what was not published.
func (s *Set) Abort() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, os.Remove(f.temporary))
	}
	s.files = nil
	return errors.Join(errs...)
}

// cancellable fails once its context is done.
type cancellable struct {
	ctx context.Context //nolint:containedctx // lives as long as one Write
	w   io.Writer
}

func (c *cancellable) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}
