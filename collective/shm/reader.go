package shm

import (
	"errors"
	"fmt"
	"sync"

	"rejoin/collective/wire"
)

// ErrPlace is wrapped by every error of Reader.Take.
var ErrPlace = errors.New("wrong place in shared memory")

// Reader is the end of a region that reads its slots. Its methods may be called
// from any goroutine.
type Reader struct {
	region *region

	mu     sync.Mutex
	turns  [Slots]uint32 // the last turn of each slot
	held   [Slots]bool   // not released yet
	closed bool
}

// Open opens the region that a peer offers.
func Open(text string) (*Reader, error) {
	o, err := parseOffer(text)
	if err != nil {
		return nil, err
	}
	r, err := openRegion(o)
	if err != nil {
		return nil, err
	}
	r.use()
	return &Reader{region: r}, nil
}

// Take returns the message with the payload that is at a place. Releasing the
// message gives the slot back.
func (r *Reader) Take(h wire.Header, at wire.Place) (*wire.Message, error) {
	if at.Slot >= Slots || at.Len < 1 || at.Len > SlotBytes {
		return nil, fmt.Errorf("%w: %d bytes in slot %d, expected 1 to %d in slots 0 to %d", ErrPlace, at.Len, at.Slot, SlotBytes, Slots-1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, fmt.Errorf("%w: it is closed", ErrPlace)
	case r.held[at.Slot]:
		return nil, fmt.Errorf("%w: turn %d of slot %d, of which turn %d is still being read", ErrPlace, at.Turn, at.Slot, r.turns[at.Slot])
	case at.Turn != r.turns[at.Slot]+1:
		return nil, fmt.Errorf("%w: turn %d of slot %d, expected %d", ErrPlace, at.Turn, at.Slot, r.turns[at.Slot]+1)
	}
	r.turns[at.Slot], r.held[at.Slot] = at.Turn, true
	r.region.use()
	h.Shared = false
	return wire.NewIncoming(h, [][]byte{r.region.slot(at.Slot, at.Len)}, func() { r.release(at.Slot) }), nil
}

// release gives a slot back to the writer.
func (r *Reader) release(slot uint32) {
	r.mu.Lock()
	r.held[slot] = false
	turn := r.turns[slot]
	r.mu.Unlock()
	r.region.released(slot).Store(turn)
	r.region.done()
}

// Close gives the region up. Messages taken stay readable until released.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.region.done()
	}
}
