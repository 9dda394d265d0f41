package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sanitise makes a run id fit for a file name.
func sanitise(id string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, id)
}

// runDir is where one attempt keeps its error files and logs.
type runDir struct {
	root string // "": none
	temp bool   // removed at the end
}

// makeRunDir makes LogDir/RUNID_random, or a temporary directory; when not even
// that can be made, the workers get no error file and the job runs all the same.
func makeRunDir(c Config) (runDir, error) {
	if c.LogDir == "" {
		root, err := os.MkdirTemp("", tempPrefix)
		if err != nil {
			return runDir{}, nil //nolint:nilerr // the job runs without error files
		}
		return runDir{root: root, temp: true}, nil
	}
	if err := os.MkdirAll(c.LogDir, 0o777); err != nil {
		return runDir{}, logDirError(c.LogDir, err)
	}
	root, err := os.MkdirTemp(c.LogDir, sanitise(c.RunID)+"_*")
	if err != nil {
		return runDir{}, logDirError(c.LogDir, err)
	}
	return runDir{root: root}, nil
}

func logDirError(dir string, err error) error {
	return fmt.Errorf("launch: cannot make the log directory %s: %w; choose another, or none", dir, err)
}

// rank makes and gives a rank's own directory; "" without a root.
func (d runDir) rank(attempt, rank int) (string, error) {
	if d.root == "" {
		return "", nil
	}
	dir := filepath.Join(d.root, "attempt_"+strconv.Itoa(attempt), strconv.Itoa(rank))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", logDirError(dir, err)
	}
	return dir, nil
}

func (d runDir) remove() {
	if d.temp {
		_ = os.RemoveAll(d.root)
	}
}
