package trainer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// OutputDirError says that no checkpoint could be written.
type OutputDirError struct {
	Dir string
	Err error
}

func (e *OutputDirError) Error() string {
	return fmt.Sprintf("checkpoints cannot be written to %s: %v; choose another --output-dir", e.Dir, e.Err)
}
func (e *OutputDirError) Unwrap() error { return e.Err }

var errNotDirectory = errors.New("it is a file, not a directory")

// checkWritable looks, before hours of training, whether checkpoints could be
// written to dir: it, or the nearest directory above it that exists, must be a
// directory that this process may write to. It changes nothing.
func checkWritable(dir string) error {
	at, err := filepath.Abs(dir)
	if err != nil {
		return &OutputDirError{dir, err}
	}
	for {
		info, err := os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			return &OutputDirError{dir, errNotDirectory}
		case err == nil:
			if err := writable(at); err != nil {
				return &OutputDirError{dir, fmt.Errorf("%s: %w", at, err)}
			}
			return nil
		case !errors.Is(err, os.ErrNotExist) || at == filepath.Dir(at):
			return &OutputDirError{dir, err}
		}
		at = filepath.Dir(at)
	}
}
