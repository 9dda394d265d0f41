package shm

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// object makes an anonymous memory object that is not a region of ours.
func object(t *testing.T, name string, size int64, seals int) int {
	t.Helper()
	file, err := unix.MemfdCreate(name, unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeFile(file) })
	if err := unix.Ftruncate(file, size); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestOpenRefuses(t *testing.T) {
	w, err := Create()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	plain, err := os.Create(t.TempDir() + "/memfd:rejoin-collective")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	at := func(file int) string { return fmt.Sprintf("1 %d %d TOKEN", os.Getpid(), file) }
	for name, tt := range map[string]struct{ offer, text string }{
		"empty":          {"", "another version"},
		"version":        {strings.Replace(w.Offer(), "1 ", "2 ", 1), "another version"},
		"no token":       {at(0)[:len(at(0))-5], "another version"},
		"long token":     {at(0) + strings.Repeat("x", RegionBytes), "another version"},
		"path":           {"1 ../self 3 TOKEN", "invalid syntax"},
		"negative":       {"1 1 -3 TOKEN", "invalid syntax"},
		"no process":     {"1 2147483647 3 TOKEN", "no such file"},
		"ordinary file":  {at(int(plain.Fd())), "is /"},
		"other object":   {at(object(t, "other", RegionBytes, sealed)), "is /memfd:other"},
		"not sealed":     {at(object(t, objectName, RegionBytes, 0)), "size is not sealed"},
		"may shrink":     {at(object(t, objectName, RegionBytes, unix.F_SEAL_GROW|unix.F_SEAL_SEAL)), "size is not sealed"},
		"small":          {at(object(t, objectName, 4096, sealed)), "4096 bytes, expected"},
		"another region": {strings.TrimSuffix(w.Offer(), w.offer.token) + strings.Repeat("A", 26), "token"},
	} {
		if r, err := Open(tt.offer); err == nil {
			r.Close()
			t.Errorf("%s: opened", name)
		} else if !errors.Is(err, ErrOffer) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %q", name, err, tt.text)
		}
	}
	before := w.Offer()
	w.Opened()
	if _, err := Open(before); !errors.Is(err, ErrOffer) {
		t.Errorf("opened after the offer was over: %v", err)
	}
	w.Close()
	if n := mapped(t); n != 0 {
		t.Errorf("%d mappings are left of what was refused", n)
	}
}

// No file descriptor stays open once both ends have the region.
func TestNoDescriptorStaysOpen(t *testing.T) {
	_, r := join(t)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.Contains(to, objectName) {
			t.Errorf("descriptor %s is %s", f.Name(), to)
		}
	}
	r.Close()
}

// Under ulimit -f, which counts for memory objects too, no region is made; the
// SIGXFSZ that the kernel sends for trying does not end a Go program.
func TestFileSizeLimit(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: RegionBytes - 1, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	w, err := Create()
	if e := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); e != nil {
		t.Fatal(e)
	}
	if err == nil {
		w.Close()
		t.Error("a region was made")
	} else if !errors.Is(err, unix.EFBIG) {
		t.Errorf("got %v, want EFBIG", err)
	}
}
