package hf

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestClaimIsForOne(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "runs", "out")
	first, err := ClaimDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if first.lock == nil {
		t.Skip("directories cannot be locked here")
	}
	claimed := (*ClaimedError)(nil)
	if _, err := ClaimDir(dir); !errors.As(err, &claimed) || claimed.Dir != dir {
		t.Errorf("a second claim: %v, expected a *ClaimedError", err)
	}
	other, err := ClaimDir(filepath.Join(top, "runs", "other"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Close(), first.Close(), other.Close()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(top); err != nil || len(left) > 1 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory that was made for nothing is still there: %v", err)
	}
	again, err := ClaimDir(dir)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kept"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "kept")); err != nil {
		t.Errorf("closing removed what was in use: %v", err)
	}
}

func TestClaimWithoutPermission(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ClaimDir(filepath.Join(file, "out")); err == nil || errors.As(err, new(*ClaimedError)) {
		t.Errorf("a directory below a file: %v", err)
	}
}
