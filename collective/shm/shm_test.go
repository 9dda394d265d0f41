package shm

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"rejoin/collective/wire"
)

// join returns both ends of a region.
func join(t *testing.T) (*Writer, *Reader) {
	t.Helper()
	w, err := Create()
	if err != nil {
		if runtime.GOOS != "linux" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	r, err := Open(w.Offer())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	w.Opened()
	return w, r
}

// pass sends n bytes of one value and returns what the reader gets.
func pass(t *testing.T, w *Writer, r *Reader, n int, value byte) *wire.Message {
	t.Helper()
	m := w.Take(wire.Header{Tag: uint32(n)}, n)
	if m == nil {
		t.Fatalf("no slot for %d bytes", n)
	}
	fill(m.Payload(), value)
	at := m.SendPlace()
	m.Release()
	got, err := r.Take(m.Header, at)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

func holds(m *wire.Message, n int, v byte) bool {
	b := m.Bytes()
	return len(b) == n && bytes.Count(b, []byte{v}) == n
}

func TestPassing(t *testing.T) {
	w, r := join(t)
	for i, n := range []int{1, 59, 4096, 4097, SlotBytes - 1, SlotBytes} {
		m := pass(t, w, r, n, byte(i+1))
		if !holds(m, n, byte(i+1)) || m.Shared || m.Tag != uint32(n) {
			t.Errorf("%d bytes arrived as %d, %+v", n, m.Len(), m.Header)
		}
		m.Release()
	}
	if w.turns[0] != 6 || w.turns[1] != 0 {
		t.Errorf("released slots are not taken again: turns %v", w.turns)
	}
	for _, n := range []int{-1, 0, SlotBytes + 1} {
		if w.Take(wire.Header{}, n) != nil {
			t.Errorf("a slot for %d bytes", n)
		}
	}
}

// A full region says so, and what is unread is not overwritten.
func TestFullRegion(t *testing.T) {
	w, r := join(t)
	var held []*wire.Message
	for i := range Slots {
		held = append(held, pass(t, w, r, 100, byte(i)))
	}
	if w.Take(wire.Header{}, 100) != nil {
		t.Fatal("a slot beyond the last")
	}
	for i, m := range held {
		if !holds(m, 100, byte(i)) {
			t.Errorf("message %d was overwritten", i)
		}
	}
	held[7].Release()
	again := pass(t, w, r, 100, 200)
	if w.Take(wire.Header{}, 100) != nil || !holds(again, 100, 200) || !holds(held[8], 100, 8) {
		t.Error("a released slot is not the one that is used again")
	}
	for i, m := range held {
		if i != 7 {
			m.Release()
		}
	}
	again.Release()
}

// A message that is not sent gives its slot back.
func TestUnsentMessage(t *testing.T) {
	w, r := join(t)
	for range 3 * Slots {
		w.Take(wire.Header{}, 1).Release()
	}
	pass(t, w, r, 1, 1).Release()
}

// No number of a place is believed.
func TestWrongPlaces(t *testing.T) {
	w, r := join(t)
	held := pass(t, w, r, 100, 5)
	for name, tt := range map[string]struct {
		at   wire.Place
		text string
	}{
		"slot":         {wire.Place{Slot: Slots, Turn: 1, Len: 1}, "slots 0 to 31"},
		"largest slot": {wire.Place{Slot: 1<<32 - 1, Turn: 1, Len: 1}, "slots 0 to 31"},
		"no length":    {wire.Place{Slot: 1, Turn: 1}, "0 bytes"},
		"length":       {wire.Place{Slot: 1, Turn: 1, Len: SlotBytes + 1}, "expected 1 to"},
		"any length":   {wire.Place{Slot: 1, Turn: 1, Len: 1<<32 - 1}, "expected 1 to"},
		"held":         {wire.Place{Slot: 0, Turn: 2, Len: 1}, "still being read"},
		"replayed":     {wire.Place{Slot: 0, Turn: 1, Len: 1}, "still being read"},
		"past":         {wire.Place{Slot: 1, Turn: 0, Len: 1}, "turn 0 of slot 1, expected 1"},
		"future":       {wire.Place{Slot: 1, Turn: 2, Len: 1}, "turn 2 of slot 1, expected 1"},
	} {
		if _, err := r.Take(wire.Header{}, tt.at); !errors.Is(err, ErrPlace) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %q", name, err, tt.text)
		}
	}
	held.Release()
	if _, err := r.Take(wire.Header{}, wire.Place{Slot: 0, Turn: 1, Len: 1}); !errors.Is(err, ErrPlace) {
		t.Errorf("a place given back is read again: %v", err)
	}
	r.Close()
	if _, err := r.Take(wire.Header{}, wire.Place{Slot: 0, Turn: 2, Len: 1}); !errors.Is(err, ErrPlace) {
		t.Errorf("a closed region is read: %v", err)
	}
}

func FuzzPlaces(f *testing.F) {
	f.Add(uint32(0), uint32(1), uint32(100))
	f.Add(uint32(31), uint32(1), uint32(SlotBytes))
	f.Fuzz(func(t *testing.T, slot, turn, n uint32) {
		_, r := join(t)
		m, err := r.Take(wire.Header{}, wire.Place{Slot: slot, Turn: turn, Len: n})
		if err != nil {
			return
		}
		if slot >= Slots || turn != 1 || !holds(m, int(n), 0) {
			t.Errorf("read %d bytes of slot %d, turn %d", m.Len(), slot, turn)
		}
		m.Release()
	})
}

// Memory outlives the ends as long as a message is in it, and not longer.
func TestMemoryLivesAsLongAsItsMessages(t *testing.T) {
	w, r := join(t)
	got := pass(t, w, r, 5000, 3)
	unsent := w.Take(wire.Header{}, 5000)
	w.Close()
	r.Close()
	w.Close()
	r.Close()
	fill(unsent.Payload(), 4)
	if !holds(got, 5000, 3) {
		t.Error("the memory changed")
	}
	if w.Take(wire.Header{}, 1) != nil {
		t.Error("a closed region gives slots")
	}
	if mapped(t) == 0 {
		t.Error("/proc/self/maps does not show the region; the next check checks nothing")
	}
	unsent.Release()
	got.Release()
	if n := mapped(t); n != 0 {
		t.Errorf("%d mappings are left", n)
	}
}

// mapped counts this process' mappings of regions.
func mapped(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(maps, []byte("memfd:rejoin-collective"))
}
