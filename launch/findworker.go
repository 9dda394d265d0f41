package launch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// workerName is the program of one rank.
const workerName = "worker"

// WorkerNotFoundError says where the worker program was looked for.
type WorkerNotFoundError struct{ Looked []string }

func (e *WorkerNotFoundError) Error() string {
	return fmt.Sprintf("launch: the program %q was not found as %s, nor on PATH; install it beside the launcher (make build puts both in bin/)",
		workerName, strings.Join(e.Looked, " or "))
}

// FindWorker finds the program of one rank: `worker` beside the launcher's own
// binary (as it was called, then with symbolic links resolved), then on PATH.
func FindWorker() (string, error) {
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	return findWorker(self)
}

func findWorker(self string) (string, error) {
	var looked []string
	for _, dir := range selfDirs(self) {
		candidate := filepath.Join(dir, workerName)
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
		looked = append(looked, candidate)
	}
	path, err := exec.LookPath(workerName)
	if err != nil {
		return "", &WorkerNotFoundError{Looked: looked}
	}
	return filepath.Abs(path)
}

func selfDirs(self string) []string {
	if self == "" {
		return nil
	}
	dirs := []string{filepath.Dir(self)}
	if real, err := filepath.EvalSymlinks(self); err == nil && filepath.Dir(real) != dirs[0] {
		dirs = append(dirs, filepath.Dir(real))
	}
	return dirs
}
