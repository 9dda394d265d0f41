package pickle

import (
	"bytes"
	"testing"
)

// FuzzLoad holds any bytes to this: no panic, no runaway, and what loads can be
// written (unless a caller's class is in it) and comes back the same.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01K\x01X\x01\x00\x00\x00bq\x02]q\x03(NNeu.",
		"ccollections\nOrderedDict\n)R(U\x01aK\x01U\x01bK\x02u}b.",
		"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x01a\x94\x8c\x01b\x94\x93\x94)\x81\x94.",
		"\x8f(K\x02K\x01\x90.", "(K\x01\x91.", "ca\nB\n)}\x92.", "]q\x00h\x00a.",
		numpyPickle(numpyModules[0], "<", "K\x01\x85", "\x01\x00\x00\x00"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, n, err := Load(in, Options{Describe: true, Persistent: func(id any) (any, error) { return id, nil }})
		if err != nil {
			return
		}
		if n > len(in) {
			t.Fatalf("took %d of %d bytes", n, len(in))
		}
		first, err := Dump(v, DumpOptions{})
		if err != nil {
			return
		}
		v, _, err = Load(first, Options{Describe: true})
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		second, err := Dump(v, DumpOptions{})
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("written again: %q, before %q, %v", second, first, err)
		}
	})
}
