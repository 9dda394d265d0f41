package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// HeaderLen is the encoded size of a Header in bytes. With gRPC's own 5-byte
// message prefix the payload starts at offset 64, so the 16 KiB frames of
// HTTP/2 never cut a float32 in two.
const HeaderLen = 59

const version = 1

// Kind says what a message is for.
type Kind uint8

// The kinds of message.
const (
	Data   Kind = 1 // one step of an operation
	Notice Kind = 2 // the sender's group has failed, and why
)

// Op names a collective operation.
type Op uint8

// The operations. Sum and mean are distinct so that ranks that disagree on the
// averaging are told so.
const (
	AllReduceSum  Op = 1
	AllReduceMean Op = 2
	Broadcast     Op = 3
	GatherSizes   Op = 4 // first half of an allgather: every rank's length
	Gather        Op = 5 // second half: the bytes
	Barrier       Op = 6
)

var opNames = [...]string{
	AllReduceSum: "allreduce sum", AllReduceMean: "allreduce mean", Broadcast: "broadcast",
	GatherSizes: "allgather", Gather: "allgather data", Barrier: "barrier",
}

// String returns the operation's name, for messages to people.
func (o Op) String() string {
	if int(o) < len(opNames) && opNames[o] != "" {
		return opNames[o]
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// DType is the element type of an operation.
type DType uint8

// The element types that travel.
const (
	None    DType = 0 // no payload: a barrier
	Uint8   DType = 1
	Float32 DType = 2
)

// String returns the type's name as torch writes it.
func (d DType) String() string {
	switch d {
	case None:
		return "none"
	case Uint8:
		return "uint8"
	case Float32:
		return "float32"
	}
	return fmt.Sprintf("dtype %d", uint8(d))
}

// Size returns the bytes of one element, 0 for None.
func (d DType) Size() int {
	switch d {
	case Uint8:
		return 1
	case Float32:
		return 4
	case None:
		return 0
	}
	return 0
}

// Fingerprint is what all ranks must agree on before their data may meet. It
// travels in every header.
type Fingerprint struct {
	Generation uint64 // which incarnation of the job
	Seq        uint64 // which operation of the group, from 1
	Op         Op
	DType      DType
	Length     uint64 // elements of the whole operation
	Root       uint32 // broadcast's source, otherwise 0
}

// String renders the fingerprint for an error message.
func (f Fingerprint) String() string {
	s := fmt.Sprintf("%v of %d %v, number %d, generation %d", f.Op, f.Length, f.DType, f.Seq, f.Generation)
	if f.Op == Broadcast {
		s += fmt.Sprintf(", root %d", f.Root)
	}
	return s
}

// Header precedes every payload.
type Header struct {
	Kind Kind
	Fingerprint
	Tag    uint32 // the step of the plan that sent it
	Lo, Hi uint64 // the elements in the payload, Lo ≤ Hi ≤ Length
	From   uint32 // the sending rank
	Shared bool   // a Place follows in the payload's stead
}

// ErrHeader is wrapped by every error of DecodeHeader.
var ErrHeader = errors.New("not a message header of this version")

// Append encodes h at the end of dst, HeaderLen bytes.
func (h Header) Append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = append(dst, version, byte(h.Kind), byte(h.Op), byte(h.DType))
	dst = le.AppendUint64(dst, h.Generation)
	dst = le.AppendUint64(dst, h.Seq)
	dst = le.AppendUint64(dst, h.Length)
	dst = le.AppendUint32(dst, h.Root)
	dst = le.AppendUint32(dst, h.Tag)
	dst = le.AppendUint64(dst, h.Lo)
	dst = le.AppendUint64(dst, h.Hi)
	dst = le.AppendUint32(dst, h.From)
	shared := byte(0)
	if h.Shared {
		shared = 1
	}
	return append(dst, shared, 0, 0)
}

// DecodeHeader reads what Append wrote; b must hold exactly HeaderLen bytes.
func DecodeHeader(b []byte) (Header, error) {
	if len(b) != HeaderLen {
		return Header{}, fmt.Errorf("%w: %d bytes, expected %d", ErrHeader, len(b), HeaderLen)
	}
	if b[0] != version {
		return Header{}, fmt.Errorf("%w: version %d, expected %d; all ranks must run the same build", ErrHeader, b[0], version)
	}
	le := binary.LittleEndian
	h := Header{
		Kind: Kind(b[1]),
		Fingerprint: Fingerprint{
			Op: Op(b[2]), DType: DType(b[3]),
			Generation: le.Uint64(b[4:]), Seq: le.Uint64(b[12:]), Length: le.Uint64(b[20:]), Root: le.Uint32(b[28:]),
		},
		Tag: le.Uint32(b[32:]), Lo: le.Uint64(b[36:]), Hi: le.Uint64(b[44:]), From: le.Uint32(b[52:]), Shared: b[56] == 1,
	}
	if h.Kind != Data && h.Kind != Notice {
		return Header{}, fmt.Errorf("%w: kind %d", ErrHeader, b[1])
	}
	if h.Lo > h.Hi || h.Hi > h.Length {
		return Header{}, fmt.Errorf("%w: range [%d, %d) of %d", ErrHeader, h.Lo, h.Hi, h.Length)
	}
	if b[56] > 1 || b[57]|b[58] != 0 {
		return Header{}, fmt.Errorf("%w: reserved bytes % x", ErrHeader, b[56:])
	}
	return h, nil
}
