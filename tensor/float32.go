package tensor

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unsafe"
)

// Alignment is that of every numeric buffer, in bytes: one cache line, and one
// AVX-512 register. Sums can depend on a buffer's alignment, so it is always the same.
const Alignment = 64

// AlignedFloat32 returns n zeros that start at a multiple of [Alignment] bytes.
func AlignedFloat32(n int) []float32 {
	if n == 0 {
		return nil
	}
	const extra = Alignment / 4
	buf := make([]float32, n+extra)
	skip := 0
	if rest := uintptr(unsafe.Pointer(&buf[0])) % Alignment; rest != 0 {
		skip = int(Alignment-rest) / 4
	}
	return buf[skip : skip+n : skip+n]
}

// FromFloat32 makes a contiguous CPU tensor with a copy of values.
// The number of values must be the product of shape: a mismatch is a programmer's error.
func FromFloat32(values []float32, shape ...int) *Tensor {
	t := &Tensor{DType: Float32, Shape: shape, Stride: ContiguousStride(shape)}
	if t.NumElements() != len(values) {
		panic(fmt.Sprintf("tensor: %d values do not fill shape %v", len(values), shape))
	}
	t.Storage = &Storage{Data: float32Bytes(values), Device: "cpu"}
	return t
}

// ViewFloat32 is [FromFloat32] without the copy: it is valid while values do not
// change. On a big-endian machine it copies.
func ViewFloat32(values []float32, shape ...int) *Tensor {
	if !hostIsLittle {
		return FromFloat32(values, shape...)
	}
	t := FromFloat32(nil, 0)
	t.Shape, t.Stride = shape, ContiguousStride(shape)
	if t.NumElements() != len(values) {
		panic(fmt.Sprintf("tensor: %d values do not fill shape %v", len(values), shape))
	}
	t.Storage.Data = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
	return t
}

// float32Bytes copies values as little-endian bytes.
func float32Bytes(values []float32) []byte {
	if hostIsLittle { // append does not clear the memory first
		return append([]byte{}, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))...)
	}
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

// WriteFloat32 writes values as little-endian bytes, without a copy of them all.
func WriteFloat32(w io.Writer, values []float32) error {
	if hostIsLittle {
		_, err := w.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values)))
		return err
	}
	const most = 1 << 14
	for len(values) > 0 {
		n := min(len(values), most)
		if _, err := w.Write(float32Bytes(values[:n])); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

// CheckFloat32 is the error that [Tensor.ReadFloat32] would fail with, whatever
// its destination. It reads no element.
func (t *Tensor) CheckFloat32() error {
	if err := t.Check(); err != nil {
		return err
	}
	if t.Meta {
		return t.noElements()
	}
	if t.DType == Float32 {
		return nil
	}
	_, err := elementReader(t.DType)
	return err
}

// ReadFloat32 fills dst with the elements in C order, converted exactly or, for
// float64 and wide integers, rounded once to nearest even.
// len(dst) must be the number of elements.
func (t *Tensor) ReadFloat32(dst []float32) error {
	if len(dst) != t.NumElements() {
		return fmt.Errorf("tensor of shape %v has %d elements, destination has %d", t.Shape, t.NumElements(), len(dst))
	}
	raw, err := t.Bytes()
	if err != nil {
		return err
	}
	if t.DType == Float32 {
		copyFloat32(dst, raw)
		return nil
	}
	read, err := elementReader(t.DType)
	if err != nil {
		return err
	}
	size := t.DType.Size()
	for i := range dst {
		dst[i] = read(raw[i*size:])
	}
	return nil
}

// hostIsLittle tells whether floats in memory have the bytes of a storage.
var hostIsLittle = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// copyFloat32 fills dst from little-endian bytes, four for each element.
func copyFloat32(dst []float32, raw []byte) {
	if hostIsLittle {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), 4*len(dst)), raw)
		return
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
}

func elementReader(d DType) (func([]byte) float32, error) {
	le := binary.LittleEndian
	switch d {
	case Float64:
		return func(b []byte) float32 { return float32(math.Float64frombits(le.Uint64(b))) }, nil
	case Float16:
		return func(b []byte) float32 { return halfToFloat32(le.Uint16(b)) }, nil
	case BFloat16:
		return func(b []byte) float32 { return math.Float32frombits(uint32(le.Uint16(b)) << 16) }, nil
	case Int64:
		return func(b []byte) float32 { return float32(int64(le.Uint64(b))) }, nil
	case Int32:
		return func(b []byte) float32 { return float32(int32(le.Uint32(b))) }, nil
	case Int16:
		return func(b []byte) float32 { return float32(int16(le.Uint16(b))) }, nil
	case Int8:
		return func(b []byte) float32 { return float32(int8(b[0])) }, nil
	case UInt64:
		return func(b []byte) float32 { return float32(le.Uint64(b)) }, nil
	case UInt32:
		return func(b []byte) float32 { return float32(le.Uint32(b)) }, nil
	case UInt16:
		return func(b []byte) float32 { return float32(le.Uint16(b)) }, nil
	case UInt8:
		return func(b []byte) float32 { return float32(b[0]) }, nil
	case Bool:
		return func(b []byte) float32 { return float32(min(b[0], 1)) }, nil
	default:
		return nil, fmt.Errorf("cannot read %v elements as float32", d)
	}
}

// halfToFloat32 widens an IEEE 754 binary16, exactly.
func halfToFloat32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h & 0x3ff)
	switch exp {
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case 0: // zero or subnormal: frac * 2^-24
		v := float32(frac) * 0x1p-24
		return math.Float32frombits(math.Float32bits(v) | sign)
	default:
		return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
	}
}
