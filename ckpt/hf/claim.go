package hf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// ClaimedError says that another process trains into the directory.
type ClaimedError struct{ Dir string }

func (e *ClaimedError) Error() string {
	return e.Dir + " is in use by another run, and checkpoints of two runs must not mix: wait for its end, or write to another directory"
}

// Claim is the sole right to write checkpoints into a directory. It ends with the
// process at the latest.
type Claim struct {
	lock io.Closer // nil where directories cannot be locked
	made []string  // directories that were made for it, the deepest first
}

// ClaimDir claims a run's directory, which it makes if need be. The error is a
// *[ClaimedError] if another process has it. Where directories cannot be locked,
// everyone gets it.
func ClaimDir(dir string) (*Claim, error) {
	var d osDisk
	for {
		c := &Claim{made: missing(dir)}
		if err := d.mkdirAll(dir); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		lock, err := d.lock(dir)
		switch {
		case errors.Is(err, errNoLock):
			return c, nil
		case errors.Is(err, errLocked):
			return nil, &ClaimedError{Dir: dir}
		case errors.Is(err, os.ErrNotExist):
			continue // its last owner has just removed it
		case err != nil:
			return nil, errors.Join(fmt.Errorf("claiming %s: %w", dir, err), c.Close())
		}
		c.lock = lock
		if held, err := stillThere(lock, dir); err != nil || held {
			return c, err
		}
		if err := lock.Close(); err != nil {
			return nil, err
		}
	}
}

// stillThere tells whether what was locked is what the name stands for: its last
// owner may have removed it in between.
func stillThere(lock io.Closer, dir string) (bool, error) {
	opened, ok := lock.(*os.File)
	if !ok {
		return true, nil
	}
	mine, err := opened.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, named), err
}

// missing lists dir and the directories above it that are not there, the deepest
// first.
func missing(dir string) (out []string) {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) || at == filepath.Dir(at) {
			return out
		}
		out = append(out, at)
	}
}

// Close gives the claim up. Directories that were made for it and are still empty
// go.
func (c *Claim) Close() error {
	for _, dir := range c.made {
		if os.Remove(dir) != nil { // it is in use
			break
		}
	}
	c.made = nil
	if c.lock == nil {
		return nil
	}
	lock := c.lock
	c.lock = nil
	return lock.Close()
}
