package rng_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"rejoin/rng"
)

type stateCase struct {
	Draws   int
	Normal  bool
	Blob    []byte
	Rand    []int32 `json:"then_rand_8"`
	Normal1 []int32 `json:"then_normal_1"`
}

func stateCases(t testing.TB) []stateCase {
	t.Helper()
	var cases struct{ States []stateCase }
	load(t, "torch.json", &cases)
	return cases.States
}

func TestStateGoesOnAsTorch(t *testing.T) {
	for _, c := range stateCases(t) {
		g, err := rng.FromState(c.Blob)
		if err != nil {
			t.Fatalf("after %d draws: %v", c.Draws, err)
		}
		if !bytes.Equal(g.State(), c.Blob) {
			t.Errorf("after %d draws: State differs from the bytes it was made from", c.Draws)
		}
		if got := bitsOf(floats(g, 8)); !slices.Equal(got, c.Rand) {
			t.Errorf("after %d draws: rand bits %v, torch gives %v", c.Draws, got, c.Rand)
		}
		if c.Normal {
			one := make([]float32, 1)
			g.NormalFloat32(one, 0, 1)
			if got := bitsOf(one); !slices.Equal(got, c.Normal1) {
				t.Errorf("cached normal: bits %v, torch gives %v", got, c.Normal1)
			}
		}
	}
}

func TestStateReachedByDrawing(t *testing.T) {
	for _, c := range stateCases(t) {
		if c.Normal {
			continue
		}
		g := rng.New(20240229)
		for range c.Draws {
			g.Uint32()
		}
		if !bytes.Equal(g.State(), c.Blob) {
			t.Errorf("after %d draws the state differs from torch's", c.Draws)
		}
	}
}

func TestStateKeepsCachedNormal(t *testing.T) {
	g := rng.New(5)
	first := make([]float32, 3)
	g.NormalFloat32(first, 0, 1)
	h, err := rng.FromState(g.State())
	if err != nil {
		t.Fatal(err)
	}
	a, b := make([]float32, 5), make([]float32, 5)
	g.NormalFloat32(a, 0, 1)
	h.NormalFloat32(b, 0, 1)
	if !slices.Equal(a, b) {
		t.Errorf("after a round trip %v, expected %v", b, a)
	}
	if !bytes.Equal(g.State(), h.State()) {
		t.Error("states differ after the same draws")
	}
}

func TestStateOfTrainer(t *testing.T) {
	blob, err := os.ReadFile("testdata/rng_state_0.pth.bin")
	if err != nil {
		t.Fatal(err)
	}
	g, err := rng.FromState(blob)
	if err != nil {
		t.Fatal(err)
	}
	// The Trainer seeds with 42; its data loader draws two words an epoch.
	want := rng.New(42)
	want.Uint64()
	if !bytes.Equal(g.State(), blob) || !bytes.Equal(want.State(), blob) {
		t.Error("the state of the Trainer's first epoch is not seed 42 after two words")
	}
}

func TestFromStateRefuses(t *testing.T) {
	good := rng.New(1).State()
	le := binary.LittleEndian
	change := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	cases := []struct {
		name, problem string
		blob          []byte
	}{
		{"empty", "it has 0 bytes, expected 5056", nil},
		{"cut", "it has 5055 bytes", good[:5055]},
		{"CUDA's 16 bytes", "another device's generator", make([]byte, 16)},
		{"zeros", "never seeded", make([]byte, rng.StateSize)},
		{"left 0", "0 words left and 0 drawn", change(func(b []byte) { le.PutUint32(b[8:], 0) })},
		{"left negative", "-1 words left and 626 drawn", change(func(b []byte) { le.PutUint32(b[8:], 0xffffffff); le.PutUint64(b[16:], 626) })},
		{"next beyond the block", "624 words left and 625 drawn", change(func(b []byte) { le.PutUint32(b[8:], 624); le.PutUint64(b[16:], 625) })},
		{"next wraps", "18446744073709551615 drawn", change(func(b []byte) { le.PutUint32(b[8:], 626); le.PutUint64(b[16:], math.MaxUint64) })},
		{"counters disagree", "600 words left and 600 drawn", change(func(b []byte) { le.PutUint32(b[8:], 600); le.PutUint64(b[16:], 600) })},
		{"wide word", "word 3 is 0x100000000", change(func(b []byte) { le.PutUint64(b[24+3*8:], 1<<32) })},
		{"zero words", "all 624 words are zero", change(func(b []byte) { clear(b[24:5016]) })},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g, err := rng.FromState(c.blob)
			var se *rng.StateError
			if !errors.As(err, &se) || g != nil {
				t.Fatalf("%v, %v: expected a StateError", g, err)
			}
			if !strings.Contains(se.Error(), c.problem) {
				t.Errorf("%q does not say %q", se, c.problem)
			}
		})
	}
}

// torch writes zeros in the two fields that nobody reads any more.
func TestStateDropsDeadFields(t *testing.T) {
	blob := rng.New(1).State()
	want := bytes.Clone(blob)
	for i := 5016; i < 5024; i++ {
		blob[i], blob[i+16] = 0xaa, 0xaa
	}
	g, err := rng.FromState(blob)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g.State(), want) {
		t.Error("normal_x and normal_rho came back")
	}
}

func TestStateKeepsCachedFloat(t *testing.T) {
	blob := rng.New(1).State()
	binary.LittleEndian.PutUint32(blob[5048:], math.Float32bits(1.5))
	blob[5052] = 1
	g, err := rng.FromState(blob)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g.State(), blob) {
		t.Error("the cached float32 normal was lost")
	}
}

func FuzzFromState(f *testing.F) {
	for _, c := range stateCases(f) {
		f.Add(c.Blob)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, blob []byte) {
		g, err := rng.FromState(blob)
		if err != nil {
			return
		}
		again, err := rng.FromState(g.State())
		if err != nil {
			t.Fatalf("its own state was refused: %v", err)
		}
		for range 1300 {
			if a, b := g.Uint32(), again.Uint32(); a != b {
				t.Fatalf("%d after a round trip, expected %d", b, a)
			}
		}
	})
}
