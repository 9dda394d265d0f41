package grpctransport

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"

	"rejoin/collective/wire"
)

func outgoing(n int) *wire.Message {
	m := wire.NewOutgoing(wire.Header{
		Kind: wire.Data, From: 1, Hi: uint64(n),
		Fingerprint: wire.Fingerprint{Op: wire.Broadcast, DType: wire.Uint8, Length: uint64(n)},
	}, n)
	for i := range m.Payload() {
		m.Payload()[i] = byte(i)
	}
	return m
}

// A message survives however the network cuts it.
func TestCodecRoundTripInPieces(t *testing.T) {
	for _, n := range []int{0, 1, 100, 5000} {
		m := outgoing(n)
		want, head := m.Bytes(), m.Header
		out, err := codec{}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		whole := out.Materialize()
		for _, cut := range []int{1, 3, 58, 59, 60, 1000, 6000} {
			var data mem.BufferSlice
			for rest := whole; len(rest) > 0; rest = rest[min(cut, len(rest)):] {
				data = append(data, mem.SliceBuffer(rest[:min(cut, len(rest))]))
			}
			var in incoming
			if err := (codec{}).Unmarshal(data, &in); err != nil {
				t.Fatal(err)
			}
			if in.m.Header != head || !bytes.Equal(in.m.Bytes(), want) {
				t.Errorf("n=%d in pieces of %d: %+v and %d bytes", n, cut, in.m.Header, in.m.Len())
			}
			in.m.Release()
		}
	}
}

// With gRPC's prefix the payload is 64 bytes in, so HTTP/2's frames cut it at
// multiples of 4 and it needs no copy.
func TestPayloadOffset(t *testing.T) {
	out, err := codec{}.Marshal(outgoing(5000))
	if err != nil {
		t.Fatal(err)
	}
	if at := 5 + out[0].Len(); len(out) != 2 || at != 64 {
		t.Errorf("%d buffers, payload at %d", len(out), at)
	}
}

// Of a payload in shared memory only the place travels.
func TestCodecSendsPlaces(t *testing.T) {
	at := wire.Place{Slot: 4, Turn: 9, Len: 1000}
	m := wire.NewPlaced(outgoing(1000).Header, make([]byte, 1000), at, func(sent bool) {
		if !sent {
			t.Error("the slot was taken back after its place was sent")
		}
	})
	out, err := codec{}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	m.Release()
	var in incoming
	if err := (codec{}).Unmarshal(out, &in); err != nil {
		t.Fatal(err)
	}
	if got, err := wire.DecodePlace(in.m.Bytes()); err != nil || got != at || !in.m.Shared {
		t.Errorf("got %+v, %v, %+v", got, err, in.m.Header)
	}
}

func TestCodecRefusesForeignTypes(t *testing.T) {
	if _, err := (codec{}).Marshal("text"); err == nil {
		t.Error("sent a string")
	}
	if err := (codec{}).Unmarshal(nil, new(string)); err == nil {
		t.Error("received into a string")
	}
	if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer("short")}, new(incoming)); err == nil {
		t.Error("took a message without a header")
	}
}

func FuzzUnmarshal(f *testing.F) {
	out, err := codec{}.Marshal(outgoing(10))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(out.Materialize(), 7)
	f.Add([]byte{}, 1)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		if cut < 1 || cut > len(b) {
			cut = len(b)
		}
		var in incoming
		if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b[:cut]), mem.SliceBuffer(b[cut:])}, &in); err != nil {
			return
		}
		if got := in.m.Append(nil); !bytes.Equal(append(got, in.m.Bytes()...), b) {
			t.Error("a message changed on the way")
		}
		in.m.Release()
	})
}
