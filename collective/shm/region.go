package shm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"
)

// The layout of a region, in bytes: a header, which the reader may write too,
// and the slots. The header has the token at its begin and, from wordsAt on, a
// word for each slot on a cache line of its own: the last turn that the reader
// has released.
const (
	// Slots is how many payloads can be under way at a time.
	Slots = 32
	// SlotBytes is the largest payload.
	SlotBytes = 256 << 10
	// RegionBytes is the size of all.
	RegionBytes = headerBytes + Slots*SlotBytes

	headerBytes = 64 << 10 // a multiple of every page size
	wordsAt     = 1024
	cacheLine   = 64
)

// region is one process' mapping of the memory.
type region struct {
	header []byte
	slots  []byte // not writable for a reader
	users  atomic.Int32
	unmap  func()
}

// use counts one more user, and done one less: the last one unmaps.
func (r *region) use() { r.users.Add(1) }

func (r *region) done() {
	if r.users.Add(-1) == 0 {
		r.unmap()
	}
}

// released is the word of a slot.
func (r *region) released(slot uint32) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&r.header[wordsAt+cacheLine*slot]))
}

// slot returns the first n bytes of a slot.
func (r *region) slot(slot, n uint32) []byte {
	at := int(slot) * SlotBytes
	return r.slots[at : at+int(n) : at+int(n)]
}

// offer is where a peer finds a region, and by what it knows it.
type offer struct {
	pid, file int
	token     string
}

// ErrOffer is wrapped by every error about an offer.
var ErrOffer = errors.New("shared memory cannot be opened")

const offerVersion = "1"

func (o offer) String() string {
	return fmt.Sprintf("%s %d %d %s", offerVersion, o.pid, o.file, o.token)
}

func parseOffer(s string) (offer, error) {
	f := strings.Split(s, " ")
	if len(f) != 4 || f[0] != offerVersion || len(f[3]) == 0 || len(f[3]) > wordsAt {
		return offer{}, fmt.Errorf("%w: an offer of another version: %q", ErrOffer, s)
	}
	pid, err1 := strconv.ParseUint(f[1], 10, 31)
	file, err2 := strconv.ParseUint(f[2], 10, 31)
	if err := errors.Join(err1, err2); err != nil {
		return offer{}, fmt.Errorf("%w: %w", ErrOffer, err)
	}
	return offer{int(pid), int(file), f[3]}, nil
}
