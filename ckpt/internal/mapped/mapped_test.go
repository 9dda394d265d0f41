package mapped

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"some": "hello", "empty": ""} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(f.Data) != content {
			t.Errorf("%s: %q", name, f.Data)
		}
		for range 2 {
			if err := f.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if f.Data != nil {
			t.Errorf("%s: data after Close", name)
		}
	}
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("a directory was opened")
	}
	if _, err := Open(os.DevNull); err == nil {
		t.Error("a device was opened")
	}
}
