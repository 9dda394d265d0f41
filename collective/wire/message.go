package wire

import (
	"math/bits"
	"sync"
)

// Message is one header and its payload.
//
// An outgoing message has one payload piece or none, in a buffer of the pool or
// in shared memory. An incoming one has as many as the transport received it in.
// Whoever holds a message last calls Release, once.
type Message struct {
	Header
	Pieces  [][]byte
	release func()
	buf     *[]byte // of Payload, when this message owns it
	place   Place   // of Payload, when the header says Shared
	sent    bool    // the place has been
}

// NewOutgoing returns a message with an uninitialised payload of n bytes from
// the pool, 8-byte aligned.
func NewOutgoing(h Header, n int) *Message {
	m := &Message{Header: h}
	if n > 0 {
		m.buf = Payloads.Get(n)
		m.Pieces = [][]byte{*m.buf}
	}
	return m
}

// NewPlaced returns an outgoing message whose payload is in shared memory, at a
// place. release is told on Release whether the place was sent.
func NewPlaced(h Header, payload []byte, at Place, release func(sent bool)) *Message {
	h.Shared = true
	m := &Message{Header: h, Pieces: [][]byte{payload}, place: at}
	m.release = func() { release(m.sent) }
	return m
}

// NewIncoming returns a received message; release, if not nil, gives the
// pieces back to the transport.
func NewIncoming(h Header, pieces [][]byte, release func()) *Message {
	return &Message{Header: h, Pieces: pieces, release: release}
}

// Payload returns the single piece of an outgoing message, nil if empty.
func (m *Message) Payload() []byte {
	if len(m.Pieces) == 0 {
		return nil
	}
	return m.Pieces[0]
}

// TakeBuffer passes the ownership of an outgoing payload's pool buffer to the
// caller, who returns it to Payloads. It is nil for an empty payload.
func (m *Message) TakeBuffer() *[]byte {
	b := m.buf
	m.buf, m.Pieces = nil, nil
	return b
}

// SendPlace returns where the payload of a message from NewPlaced is. From then
// on it is the receiver's, and the sender must not write it.
func (m *Message) SendPlace() Place {
	m.sent = true
	return m.place
}

// Len returns the payload's size in bytes.
func (m *Message) Len() int {
	n := 0
	for _, p := range m.Pieces {
		n += len(p)
	}
	return n
}

// Bytes returns a copy of the payload in one piece.
func (m *Message) Bytes() []byte {
	b := make([]byte, 0, m.Len())
	for _, p := range m.Pieces {
		b = append(b, p...)
	}
	return b
}

// Release gives the payload back. The message must not be used afterwards.
func (m *Message) Release() {
	if m.release != nil {
		m.release()
		m.release = nil
	}
	if m.buf != nil {
		Payloads.Put(m.buf)
		m.buf = nil
	}
	m.Pieces = nil
}

// Pool reuses payload buffers by power-of-two size class. Its methods are
// those of a gRPC buffer pool, so a transport can hand a buffer on and have it
// returned when the bytes have left.
type Pool struct {
	classes [maxClass + 1]sync.Pool
}

const (
	minClass = 6  // 64 B: whole cache lines
	maxClass = 26 // 64 MiB: larger buffers are not kept
)

// Payloads is the pool behind NewOutgoing.
var Payloads = new(Pool)

func class(n int) int { return max(minClass, bits.Len(uint(max(n, 1)-1))) }

// Get returns a buffer of length n; its contents are undefined.
func (p *Pool) Get(n int) *[]byte {
	c := class(n)
	if c > maxClass {
		b := make([]byte, n)
		return &b
	}
	if b, ok := p.classes[c].Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, 1<<c)
	return &b
}

// Put keeps b for a later Get. The caller must not use it any more.
func (p *Pool) Put(b *[]byte) {
	c := bits.Len(uint(cap(*b))) - 1
	if c < minClass || c > maxClass || cap(*b) != 1<<c {
		return
	}
	*b = (*b)[:0]
	p.classes[c].Put(b)
}
