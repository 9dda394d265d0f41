package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// PlaceLen is the encoded size of a Place in bytes.
const PlaceLen = 12

// Place says where in memory that both ranks share a payload lies. It travels
// in the payload's stead in a message whose header says Shared.
type Place struct {
	Slot uint32 // which part of the memory
	Turn uint32 // the number of this use of it, from 1, modulo 2^32
	Len  uint32 // bytes
}

// ErrPlace is wrapped by every error of DecodePlace.
var ErrPlace = errors.New("not a place in shared memory")

// Append encodes p at the end of dst, PlaceLen bytes.
func (p Place) Append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, p.Slot)
	dst = le.AppendUint32(dst, p.Turn)
	return le.AppendUint32(dst, p.Len)
}

// DecodePlace reads what Append wrote; whether there is such a place is for the
// memory's owner to say.
func DecodePlace(b []byte) (Place, error) {
	if len(b) != PlaceLen {
		return Place{}, fmt.Errorf("%w: %d bytes, expected %d", ErrPlace, len(b), PlaceLen)
	}
	le := binary.LittleEndian
	return Place{Slot: le.Uint32(b), Turn: le.Uint32(b[4:]), Len: le.Uint32(b[8:])}, nil
}
