package tensor

import (
	"encoding/binary"
	"math"
)

// Float64Decoder returns what reads one element of type d as a float64: exactly,
// but for integers beyond 2^53, which are rounded to nearest even. ok is false
// for complex types. The formats of the 8-bit floats are those of ml_dtypes and
// torch: OCP OFP8 for e4m3fn and e5m2, Graphcore's for the fnuz types, OCP MX
// for e8m0fnu.
func Float64Decoder(d DType) (decode func([]byte) float64, ok bool) {
	le := binary.LittleEndian
	switch d {
	case Float64:
		return func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }, true
	case Float32:
		return func(b []byte) float64 { return float64(math.Float32frombits(le.Uint32(b))) }, true
	case Float16:
		return func(b []byte) float64 { return float64(halfToFloat32(le.Uint16(b))) }, true
	case BFloat16:
		return func(b []byte) float64 { return float64(math.Float32frombits(uint32(le.Uint16(b)) << 16)) }, true
	case Int64:
		return func(b []byte) float64 { return float64(int64(le.Uint64(b))) }, true
	case Int32:
		return func(b []byte) float64 { return float64(int32(le.Uint32(b))) }, true
	case Int16:
		return func(b []byte) float64 { return float64(int16(le.Uint16(b))) }, true
	case Int8:
		return func(b []byte) float64 { return float64(int8(b[0])) }, true
	case UInt64:
		return func(b []byte) float64 { return float64(le.Uint64(b)) }, true
	case UInt32:
		return func(b []byte) float64 { return float64(le.Uint32(b)) }, true
	case UInt16:
		return func(b []byte) float64 { return float64(le.Uint16(b)) }, true
	case UInt8:
		return func(b []byte) float64 { return float64(b[0]) }, true
	case Bool:
		return func(b []byte) float64 { return float64(min(b[0], 1)) }, true
	case Float8E4M3FN, Float8E5M2, Float8E4M3FNUZ, Float8E5M2FNUZ, Float8E8M0FNU:
		table := float8Table(d)
		return func(b []byte) float64 { return table[b[0]] }, true
	default:
		return nil, false
	}
}

// IsFloat reports whether d is a real floating-point type.
func (d DType) IsFloat() bool {
	switch d {
	case Float64, Float32, Float16, BFloat16, Float8E4M3FN, Float8E5M2, Float8E4M3FNUZ, Float8E5M2FNUZ, Float8E8M0FNU:
		return true
	default:
		return false
	}
}

// ComplexPart is the type of each of the two parts of an element of a complex
// type; Invalid for other types.
func (d DType) ComplexPart() DType {
	switch d {
	case Complex128:
		return Float64
	case Complex64:
		return Float32
	case Complex32:
		return Float16
	default:
		return Invalid
	}
}

// float8Table lists the value of every byte.
func float8Table(d DType) *[256]float64 {
	var t [256]float64
	for i := range t {
		t[i] = float8(d, byte(i))
	}
	return &t
}

func float8(d DType, b byte) float64 {
	if d == Float8E8M0FNU { // an exponent alone
		if b == 0xff {
			return math.NaN()
		}
		return math.Ldexp(1, int(b)-127)
	}
	mantissaBits, bias := uint(3), 7
	switch d {
	case Float8E5M2:
		mantissaBits, bias = 2, 15
	case Float8E4M3FNUZ:
		bias = 8
	case Float8E5M2FNUZ:
		mantissaBits, bias = 2, 16
	default: // e4m3fn
	}
	sign, magnitude := 1.0, b&0x7f
	if b&0x80 != 0 {
		sign = -1
	}
	exponent, fraction := int(magnitude>>mantissaBits), float64(magnitude&(1<<mantissaBits-1))
	switch {
	case d == Float8E4M3FN && magnitude == 0x7f:
		return math.NaN()
	case d == Float8E5M2 && magnitude == 0x7c:
		return math.Inf(int(sign))
	case d == Float8E5M2 && magnitude > 0x7c:
		return math.NaN()
	case (d == Float8E4M3FNUZ || d == Float8E5M2FNUZ) && b == 0x80:
		return math.NaN()
	}
	if exponent == 0 {
		return sign * math.Ldexp(fraction, 1-bias-int(mantissaBits))
	}
	return sign * math.Ldexp(1+math.Ldexp(fraction, -int(mantissaBits)), exponent-bias)
}
