package collective

import (
	"encoding/binary"
	"unsafe"

	"rejoin/collective/plan"
	"rejoin/collective/wire"
	"rejoin/kernel"
)

// octets is an operand of bytes, which are copied and never added.
type octets []byte

func (o octets) put(dst []byte, r plan.Range) { copy(dst, o[r.Lo:r.Hi]) }

func (o octets) combine(how plan.Combine, pieces [][]byte, r plan.Range, store bool, dst []byte) {
	own := o[r.Lo:r.Hi]
	n := 0
	for _, p := range pieces {
		if store {
			copy(own[n:], p)
		}
		if dst != nil {
			copy(dst[n:], p)
		}
		n += len(p)
	}
}

// floats is an operand of float32. Own values count multiplied by scale until
// something is stored over them; a plan reads no element after storing it if
// the scale is not 1. A sum's NaN is always the same one, so that all ranks get
// the same bits.
type floats struct {
	own   []float32
	scale float32
}

func (f *floats) put(dst []byte, r plan.Range) {
	out := view(dst)
	own := f.own[r.Lo:r.Hi]
	if f.scale == 1 {
		copy(out, own)
	} else {
		scaleInto(out, own, f.scale)
	}
	toLittle(dst)
}

func (f *floats) combine(how plan.Combine, pieces [][]byte, r plan.Range, store bool, dst []byte) {
	own := f.own[r.Lo:r.Hi]
	to := own
	if !store {
		to = view(dst)
	}
	n := 0
	eachFloats(pieces, func(got []float32) {
		to, own := to[n:n+len(got)], own[n:n+len(got)]
		n += len(got)
		switch how {
		case plan.AddLeft, plan.AddRight:
			kernel.AddScaled(to, got, own, f.scale)
		case plan.Replace:
			copy(to, got)
		case plan.Own:
			copy(to, own)
		}
	})
	if store && dst != nil {
		copy(view(dst), own)
	}
	toLittle(dst)
}

// scaleInto is dst = src·scale, a part at a time that the nearest cache holds.
func scaleInto(dst, src []float32, scale float32) {
	const part = 4 << 10 // elements
	for len(src) > 0 {
		n := copy(dst[:min(part, len(dst))], src)
		kernel.Scale(dst[:n], scale)
		dst, src = dst[n:], src[n:]
	}
}

// scratch is a float32 buffer from the payload pool.
type scratch struct {
	values []float32
	buf    *[]byte
}

// scaled returns a copy of src times scale.
func scaled(src []float32, scale float32) scratch {
	s := scratch{buf: wire.Payloads.Get(4 * len(src))}
	s.values = view(*s.buf)
	scaleInto(s.values, src, scale)
	return s
}

func (s scratch) free() { wire.Payloads.Put(s.buf) }

// littleEndian is the wire's byte order; on other machines payloads are swapped.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// view is b as float32 values in the machine's byte order. b must be aligned to
// 4 bytes, which pool buffers are.
func view(b []byte) []float32 {
	if len(b) < 4 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func aligned(b []byte) bool {
	return len(b)%4 == 0 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%4 == 0
}

// eachFloats calls f with the values of the pieces in order. Pieces that cut a
// value in two, or lie askew, are first copied into one.
func eachFloats(pieces [][]byte, f func([]float32)) {
	straight := littleEndian
	n := 0
	for _, p := range pieces {
		straight = straight && aligned(p)
		n += len(p)
	}
	if straight {
		for _, p := range pieces {
			f(view(p))
		}
		return
	}
	whole := wire.Payloads.Get(n)
	defer wire.Payloads.Put(whole)
	at := 0
	for _, p := range pieces {
		at += copy((*whole)[at:], p)
	}
	toLittle(*whole) // from little, which is the same
	f(view(*whole))
}

// toLittle converts between the machine's byte order and the wire's, in place.
func toLittle(b []byte) {
	if littleEndian {
		return
	}
	for ; len(b) >= 4; b = b[4:] {
		b[0], b[1], b[2], b[3] = b[3], b[2], b[1], b[0]
	}
}
