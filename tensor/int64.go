package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
)

// ReadInt64 fills dst with the elements in C order; false is 0 and true is 1.
// len(dst) must be the number of elements. It fails for element types that are
// not integers, and for a number of 2⁶³ and more.
func (t *Tensor) ReadInt64(dst []int64) error {
	if len(dst) != t.NumElements() {
		return fmt.Errorf("tensor of shape %v has %d elements, destination has %d", t.Shape, t.NumElements(), len(dst))
	}
	raw, err := t.Bytes()
	if err != nil {
		return err
	}
	read, err := integerReader(t.DType)
	if err != nil {
		return err
	}
	size := t.DType.Size()
	for i := range dst {
		dst[i] = read(raw[i*size:])
		if t.DType == UInt64 && dst[i] < 0 {
			return fmt.Errorf("%d does not fit in an int64, at most %d does", uint64(dst[i]), int64(math.MaxInt64))
		}
	}
	return nil
}

func integerReader(d DType) (func([]byte) int64, error) {
	le := binary.LittleEndian
	switch d {
	case Int64, UInt64:
		return func(b []byte) int64 { return int64(le.Uint64(b)) }, nil
	case Int32:
		return func(b []byte) int64 { return int64(int32(le.Uint32(b))) }, nil
	case Int16:
		return func(b []byte) int64 { return int64(int16(le.Uint16(b))) }, nil
	case Int8:
		return func(b []byte) int64 { return int64(int8(b[0])) }, nil
	case UInt32:
		return func(b []byte) int64 { return int64(le.Uint32(b)) }, nil
	case UInt16:
		return func(b []byte) int64 { return int64(le.Uint16(b)) }, nil
	case UInt8:
		return func(b []byte) int64 { return int64(b[0]) }, nil
	case Bool:
		return func(b []byte) int64 { return int64(min(b[0], 1)) }, nil
	default:
		return nil, fmt.Errorf("cannot read %v elements as int64", d)
	}
}

// IsInteger reports whether elements of type d are integers, Bool among them.
func (d DType) IsInteger() bool {
	_, err := integerReader(d)
	return err == nil
}

// IsReal reports whether elements of type d are floats that ReadFloat32 reads.
func (d DType) IsReal() bool {
	_, err := elementReader(d)
	return err == nil && !d.IsInteger() || d == Float32
}
