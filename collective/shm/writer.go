package shm

import (
	"crypto/rand"
	"os"
	"sync"

	"rejoin/collective/wire"
)

// Writer is the end of a region that fills its slots. Its methods may be called
// from any goroutine.
type Writer struct {
	region *region
	offer  offer

	mu     sync.Mutex
	turns  [Slots]uint32 // the last turn of each slot
	opened bool          // the file is closed: the peer has the region open, or never will
	closed bool
}

// Create makes a region.
func Create() (*Writer, error) {
	r, file, err := createRegion()
	if err != nil {
		return nil, err
	}
	w := &Writer{region: r, offer: offer{os.Getpid(), file, rand.Text()}}
	copy(r.header, w.offer.token)
	r.use()
	return w, nil
}

// Offer is what the peer's Open wants, printable. It is good until Opened.
func (w *Writer) Offer() string { return w.offer.String() }

// Opened says that the peer has opened the region: nobody else can, from now on.
func (w *Writer) Opened() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.opened {
		w.opened = true
		closeFile(w.offer.file)
	}
}

// Take returns a message to fill, with a payload of n bytes in a free slot, or
// nil if n is not 1 to SlotBytes or no slot is free. The bytes are undefined.
// The slot is free again when the message is released without having been sent,
// or the reader has released it.
func (w *Writer) Take(h wire.Header, n int) *wire.Message {
	if n < 1 || n > SlotBytes {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	for i := range w.turns {
		slot := uint32(i)
		if w.region.released(slot).Load() != w.turns[slot] {
			continue
		}
		w.turns[slot]++
		w.region.use()
		at := wire.Place{Slot: slot, Turn: w.turns[slot], Len: uint32(n)}
		return wire.NewPlaced(h, w.region.slot(slot, at.Len), at, func(sent bool) { w.release(slot, sent) })
	}
	return nil
}

// release ends the use of a slot by this process.
func (w *Writer) release(slot uint32, sent bool) {
	if !sent {
		w.mu.Lock()
		w.turns[slot]--
		w.mu.Unlock()
	}
	w.region.done()
}

// Close gives the region up. Messages taken may still be filled and sent.
func (w *Writer) Close() {
	w.Opened()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.region.done()
	}
}
