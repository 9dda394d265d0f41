//go:build unix

package mapped

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe that no one writes to must not hold up who opens it.
func TestOpenPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error %v", err)
	}
}
