package hf

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
)

// The Trainer's own files, of runs that drew nothing from Python's and numpy's
// generators, are what a fresh state of the run's seed is written as.
func TestNewRandomStateIsTheTrainers(t *testing.T) {
	for path, seed := range map[string]uint32{
		"testdata/regression-w2/checkpoint-2/rng_state_0.pth": 42,
		"testdata/digits-mlp-w2/checkpoint-4/rng_state_0.pth": 11,
		"testdata/digits-w1/checkpoint-3/rng_state.pth":       8,
	} {
		want := readBytes(t, path)
		found, err := UnmarshalRandomState(want)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		made := NewRandomState(found.CPU, seed, seed)
		prefix := strings.TrimSuffix(filepath.Base(path), ".pth")
		for name, r := range map[string]*RandomState{"found": found, "made": made} {
			var out bytes.Buffer
			if err := torchfile.Write(&out, prefix, r.object()); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("%s: the state %s is written as %d other bytes, not the %d of the file", path, name, out.Len(), len(want))
			}
		}
	}
}

func TestRandomStateTravels(t *testing.T) {
	c := open(t, "testdata/regression-w2/checkpoint-2")
	r, err := c.RandomState(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	r.found.Set("cuda", &pyobj.List{Items: []any{int64(7)}})
	cpu := slices.Clone(r.CPU)
	cpu[16] = 99
	changed := r.WithCPU(cpu)
	cpu[16] = 98
	data, err := changed.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := UnmarshalRandomState(data)
	if err != nil {
		t.Fatal(err)
	}
	if back.CPU[16] != 99 || r.CPU[16] == 99 {
		t.Errorf("torch's part is %d, the original's %d", back.CPU[16], r.CPU[16])
	}
	if _, ok := back.found.Get("cuda"); !ok {
		t.Error("an entry that is not known here was lost")
	}
	again, err := back.Marshal()
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("marshalled again it differs, %v", err)
	}
}

// numpy's part of a random state is read in numpy 1's and numpy 2's spelling, and
// written as it was (D30, deepmodeling/deepmd-kit#4147).
func TestRandomStateKeepsNumpysSpelling(t *testing.T) {
	r := NewRandomState(make([]byte, CPUStateSize), 1, 2)
	array := r.Numpy.(*pyobj.Tuple).Items[1].(*pyobj.NDArray)
	if array.Module != "numpy._core.multiarray" {
		t.Errorf("a new state is spelled %s", array.Module)
	}
	array.Module = "numpy.core.multiarray"
	data, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := UnmarshalRandomState(data)
	if err != nil {
		t.Fatal(err)
	}
	if got := back.Numpy.(*pyobj.Tuple).Items[1].(*pyobj.NDArray).Module; got != "numpy.core.multiarray" {
		t.Errorf("the old spelling became %s", got)
	}
}

func TestRandomStateRefuses(t *testing.T) {
	if _, err := NewRandomState(make([]byte, 10), 1, 1).Marshal(); err == nil || !strings.Contains(err.Error(), "10 bytes, expected 5056") {
		t.Errorf("a short state: %v", err)
	}
	if _, err := UnmarshalRandomState([]byte("x")); err == nil {
		t.Error("one byte was taken for a state")
	}
	if _, err := UnmarshalRandomState(nil); err == nil {
		t.Error("nothing was taken for a state")
	}
}

func TestRandomStateAtWorldSizeOne(t *testing.T) {
	c := open(t, "testdata/digits-w1/checkpoint-3")
	if _, err := c.RandomState(0, 1); err != nil {
		t.Error(err)
	}
	_, err := c.RandomState(0, 2)
	if err == nil || !strings.Contains(err.Error(), "rank 0 of 2 has no saved random state (the checkpoint holds rng_state.pth)") {
		t.Errorf("rank 0 of 2: %v", err)
	}
}

func FuzzUnmarshalRandomState(f *testing.F) {
	data, err := os.ReadFile("testdata/digits-w1/checkpoint-3/rng_state.pth")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := UnmarshalRandomState(data)
		if err != nil {
			return
		}
		if len(r.CPU) != CPUStateSize {
			t.Errorf("a state of %d bytes was accepted", len(r.CPU))
		}
	})
}
