package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"rejoin/collective/wire"
)

func sample() wire.Header {
	return wire.Header{
		Kind: wire.Data,
		Fingerprint: wire.Fingerprint{
			Generation: 3, Seq: 1 << 40, Op: wire.AllReduceMean, DType: wire.Float32, Length: 1000, Root: 7,
		},
		Tag: 9, Lo: 10, Hi: 20, From: 5,
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	h := sample()
	b := h.Append(nil)
	if len(b) != wire.HeaderLen {
		t.Fatalf("encoded to %d bytes, want %d", len(b), wire.HeaderLen)
	}
	got, err := wire.DecodeHeader(b)
	if err != nil || got != h {
		t.Errorf("got %+v, %v; want %+v", got, err, h)
	}
}

func TestSharedHeaderRoundTrip(t *testing.T) {
	h := sample()
	h.Shared = true
	b := h.Append(nil)
	if got, err := wire.DecodeHeader(b); err != nil || got != h || len(b) != wire.HeaderLen {
		t.Errorf("got %+v, %v in %d bytes; want %+v", got, err, len(b), h)
	}
}

func TestPlace(t *testing.T) {
	p := wire.Place{Slot: 1 << 31, Turn: 77, Len: 5}
	b := p.Append(nil)
	if got, err := wire.DecodePlace(b); err != nil || got != p || len(b) != wire.PlaceLen {
		t.Errorf("got %+v, %v in %d bytes; want %+v", got, err, len(b), p)
	}
	for _, bad := range [][]byte{nil, b[:11], append(bytes.Clone(b), 0)} {
		if _, err := wire.DecodePlace(bad); !errors.Is(err, wire.ErrPlace) {
			t.Errorf("%d bytes: %v, want ErrPlace", len(bad), err)
		}
	}
}

func TestDecodeHeaderRefuses(t *testing.T) {
	good := sample().Append(nil)
	change := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for name, tt := range map[string]struct {
		in   []byte
		text string
	}{
		"empty":       {nil, "0 bytes, expected 59"},
		"short":       {good[:58], "58 bytes"},
		"long":        {append(bytes.Clone(good), 0), "60 bytes"},
		"version":     {change(0, 2), "version 2, expected 1"},
		"kind":        {change(1, 77), "kind 77"},
		"lo after hi": {change(36, 21), "range [21, 20) of 1000"},
		"hi beyond":   {change(51, 1), "of 1000"},
		"reserved":    {change(58, 1), "reserved"},
		"shared":      {change(56, 2), "reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := wire.DecodeHeader(tt.in)
			if !errors.Is(err, wire.ErrHeader) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want ErrHeader saying %q", err, tt.text)
			}
		})
	}
}

func FuzzDecodeHeader(f *testing.F) {
	f.Add(sample().Append(nil))
	f.Add(wire.Header{Kind: wire.Notice}.Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := wire.DecodeHeader(b)
		if err != nil {
			return
		}
		if again := h.Append(nil); !bytes.Equal(again, b) {
			t.Errorf("% x decodes and re-encodes to % x", b, again)
		}
	})
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		wire.AllReduceMean.String():              "allreduce mean",
		wire.Op(0).String():                      "operation 0",
		wire.Op(200).String():                    "operation 200",
		wire.Float32.String():                    "float32",
		wire.None.String():                       "none",
		wire.DType(9).String():                   "dtype 9",
		fmt.Sprint(wire.Uint8, wire.None.Size()): "uint8 0",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	fp := wire.Fingerprint{Generation: 1, Seq: 12, Op: wire.Broadcast, DType: wire.Uint8, Length: 30, Root: 2}
	if got, want := fp.String(), "broadcast of 30 uint8, number 12, generation 1, root 2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPoolReuses(t *testing.T) {
	p := new(wire.Pool)
	for _, n := range []int{0, 1, 63, 64, 65, 4096, 1 << 20, 1<<26 + 1} {
		b := p.Get(n)
		if len(*b) != n {
			t.Errorf("Get(%d) has length %d", n, len(*b))
		}
		p.Put(b)
	}
	odd := make([]byte, 100) // not of the pool: must not come back
	p.Put(&odd)
	for range 10 {
		if b := p.Get(100); cap(*b) == 100 {
			t.Error("the pool handed out a foreign buffer")
		}
	}
}

func TestMessageOwnership(t *testing.T) {
	m := wire.NewOutgoing(sample(), 40)
	if m.Len() != 40 || len(m.Payload()) != 40 {
		t.Errorf("outgoing has %d bytes", m.Len())
	}
	if b := m.TakeBuffer(); b == nil || len(*b) != 40 {
		t.Error("TakeBuffer did not hand over the buffer")
	}
	if m.Payload() != nil {
		t.Error("the message still has its payload")
	}
	m.Release()
	if e := wire.NewOutgoing(sample(), 0); e.Payload() != nil || e.TakeBuffer() != nil {
		t.Error("an empty message has a buffer")
	}
	released := 0
	in := wire.NewIncoming(sample(), [][]byte{{1, 2}, {3}}, func() { released++ })
	if got := in.Bytes(); !bytes.Equal(got, []byte{1, 2, 3}) {
		t.Errorf("Bytes = %v", got)
	}
	in.Release()
	in.Release()
	if released != 1 {
		t.Errorf("released %d times", released)
	}
}

// Whoever lent the memory is told, once, whether its place was sent.
func TestPlacedMessage(t *testing.T) {
	for _, sent := range []bool{false, true} {
		var told []bool
		at, memory := wire.Place{Slot: 3, Turn: 2, Len: 8}, make([]byte, 8)
		m := wire.NewPlaced(sample(), memory, at, func(sent bool) { told = append(told, sent) })
		m.Payload()[7] = 9
		if !m.Shared || m.Len() != 8 || memory[7] != 9 {
			t.Errorf("%+v with %d bytes", m.Header, m.Len())
		}
		if sent && m.SendPlace() != at {
			t.Error("it is at another place")
		}
		m.Release()
		m.Release()
		if len(told) != 1 || told[0] != sent || m.Payload() != nil {
			t.Errorf("sent %v: told %v", sent, told)
		}
	}
}

func BenchmarkHeader(b *testing.B) {
	h := sample()
	buf := make([]byte, 0, wire.HeaderLen)
	for b.Loop() {
		buf = h.Append(buf[:0])
		if _, err := wire.DecodeHeader(buf); err != nil {
			b.Fatal(err)
		}
	}
}
