package grpctransport

import (
	"fmt"

	"google.golang.org/grpc/mem"

	"rejoin/collective/wire"
)

// codec passes messages through as they are. It takes *wire.Message to send,
// whose payload buffer goes back to the pool when its bytes have left, or of
// whose payload only the place travels, and *incoming to receive.
type codec struct{}

// Name is the content subtype, so that a peer with another codec is refused.
func (codec) Name() string { return "rejoin-raw" }

// Marshal takes the message's payload over.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*wire.Message)
	if !ok {
		return nil, fmt.Errorf("grpctransport: cannot send a %T", v)
	}
	head := m.Append(make([]byte, 0, wire.HeaderLen+wire.PlaceLen))
	if m.Shared {
		return mem.BufferSlice{mem.SliceBuffer(m.SendPlace().Append(head))}, nil
	}
	out := mem.BufferSlice{mem.SliceBuffer(head)}
	if b := m.TakeBuffer(); b != nil {
		out = append(out, mem.NewBuffer(b, wire.Payloads))
	}
	return out, nil
}

// incoming is where a received message goes.
type incoming struct{ m *wire.Message }

// Unmarshal keeps a reference to the received buffers until the message is
// released.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return fmt.Errorf("grpctransport: cannot receive into a %T", v)
	}
	var head [wire.HeaderLen]byte
	n := 0
	pieces := make([][]byte, 0, len(data))
	for _, b := range data {
		p := b.ReadOnlyData()
		k := copy(head[n:], p)
		n += k
		if k < len(p) {
			pieces = append(pieces, p[k:])
		}
	}
	h, err := wire.DecodeHeader(head[:n])
	if err != nil {
		return err
	}
	data.Ref()
	in.m = wire.NewIncoming(h, pieces, data.Free)
	return nil
}
