package compare

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"rejoin/tensor"
)

// Difference is how the elements of two tensors of one shape differ.
type Difference struct {
	Count int `json:"count"` // elements that differ beyond the tolerances
	// MaxAbs is the largest |a-b|, MaxRel the largest |a-b| / max(|a|, |b|);
	// both are infinite, in JSON null, where one side alone is NaN or infinite.
	MaxAbs Number `json:"max_abs"`
	MaxRel Number `json:"max_rel"`
	// MaxULP is the largest number of representable values between two elements,
	// for tensors of one floating-point dtype; -1 where it has no meaning.
	MaxULP int64 `json:"max_ulp"`
	// First is the first differing element: its index, and both values.
	First      []int  `json:"first_index"`
	FirstA     string `json:"first_a"`
	FirstB     string `json:"first_b"`
	sameValues bool   // the dtypes differ, the values do not
}

// Number is a float64 that JSON can hold: null where it is not finite.
type Number float64

// MarshalJSON writes the shortest digits that read back.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, "%v", float64(n)), nil
}

// Tolerance is what still counts as equal: |a-b| <= Abs + Rel·|b|, as
// numpy.isclose has it; NaN equals NaN. The zero value asks for equal bits.
type Tolerance struct{ Abs, Rel float64 }

func (t Tolerance) exact() bool { return t == Tolerance{} }

// differ compares the elements of a and b, which have one shape. It is nil if
// they are equal.
func differ(a, b *tensor.Tensor, tol Tolerance) (*Difference, error) {
	rawA, err := a.Bytes()
	if err != nil {
		return nil, err
	}
	rawB, err := b.Bytes()
	if err != nil {
		return nil, err
	}
	if a.DType == b.DType && bytes.Equal(rawA, rawB) {
		return nil, nil
	}
	readA, err := newReader(a.DType, rawA)
	if err != nil {
		return nil, err
	}
	readB, err := newReader(b.DType, rawB)
	if err != nil {
		return nil, err
	}
	if readA.parts != readB.parts {
		return nil, fmt.Errorf("%v and %v elements cannot be compared", a.DType, b.DType)
	}
	c := &comparison{a: readA, b: readB, tol: tol, d: &Difference{MaxULP: -1}, ulp: ulpOf(a.DType, b.DType)}
	c.run(a.NumElements())
	if c.d.Count == 0 {
		if a.DType == b.DType {
			return nil, nil
		}
		c.d.sameValues = true
		return c.d, nil
	}
	c.d.First = indexOf(c.first, a.Shape)
	c.d.FirstA, c.d.FirstB = readA.text(c.first), readB.text(c.first)
	return c.d, nil
}

// reader reads the elements of a tensor, or the two parts of complex ones.
type reader struct {
	raw    []byte
	dtype  tensor.DType
	width  int // of one part, in bytes
	parts  int // 1, or 2 for complex types
	decode func([]byte) float64
}

func newReader(d tensor.DType, raw []byte) (*reader, error) {
	r := &reader{raw: raw, dtype: d, width: d.Size(), parts: 1}
	if part := d.ComplexPart(); part.Valid() {
		r.dtype, r.width, r.parts = part, part.Size(), 2
	}
	decode, ok := tensor.Float64Decoder(r.dtype)
	if !ok {
		return nil, fmt.Errorf("%v elements cannot be read", d)
	}
	r.decode = decode
	return r, nil
}

func (r *reader) bits(part int) []byte { return r.raw[part*r.width : (part+1)*r.width] }

func (r *reader) value(part int) float64 { return r.decode(r.bits(part)) }

// text writes one element; wide integers exactly.
func (r *reader) text(element int) string {
	if r.parts == 2 {
		return fmt.Sprintf("(%v%+gj)", r.value(2*element), r.value(2*element+1))
	}
	switch b := r.bits(element); r.dtype {
	case tensor.Int64:
		return fmt.Sprint(int64(binary.LittleEndian.Uint64(b)))
	case tensor.UInt64:
		return fmt.Sprint(binary.LittleEndian.Uint64(b))
	case tensor.Float32:
		return fmt.Sprint(float32(r.value(element)))
	case tensor.Bool:
		return map[bool]string{true: "True", false: "False"}[r.value(element) != 0]
	default:
		return fmt.Sprint(r.value(element))
	}
}

type comparison struct {
	a, b  *reader
	tol   Tolerance
	ulp   func(a, b []byte) int64
	d     *Difference
	first int
}

// run compares n elements, part by part.
func (c *comparison) run(n int) {
	for i := range n {
		differs := false
		for part := i * c.a.parts; part < (i+1)*c.a.parts; part++ {
			if !c.same(part) {
				differs = true
			}
		}
		if !differs {
			continue
		}
		if c.d.Count == 0 {
			c.first = i
		}
		c.d.Count++
	}
}

// same compares one part of one element, and notes how far it is off.
func (c *comparison) same(part int) bool {
	rawA, rawB := c.a.bits(part), c.b.bits(part)
	alike := c.a.dtype == c.b.dtype
	if alike && bytes.Equal(rawA, rawB) {
		return true
	}
	x, y := c.a.decode(rawA), c.b.decode(rawB)
	switch {
	case math.IsNaN(x) && math.IsNaN(y):
		if !alike || !c.tol.exact() {
			return true
		}
	case !alike && x == y:
		return !inexact(c.a.dtype, c.b.dtype, rawA, rawB)
	case !c.tol.exact() && (x == y || math.Abs(x-y) <= c.tol.Abs+c.tol.Rel*math.Abs(y)):
		return true
	}
	c.note(x, y, rawA, rawB)
	return false
}

// inexact reports whether equal float64 values may hide different integers.
func inexact(a, b tensor.DType, rawA, rawB []byte) bool {
	wide := func(d tensor.DType) bool { return d == tensor.Int64 || d == tensor.UInt64 }
	if !wide(a) || !wide(b) {
		return false
	}
	return !bytes.Equal(rawA, rawB)
}

func (c *comparison) note(x, y float64, rawA, rawB []byte) {
	abs := math.Abs(x - y)
	rel := abs / max(math.Abs(x), math.Abs(y))
	if x == y { // bits differ: zeros of two signs, or wide integers
		abs, rel = 0, 0
		if c.a.dtype == tensor.Int64 || c.a.dtype == tensor.UInt64 {
			abs = 1 // at least; both round to one float64
		}
	}
	oneNaN := math.IsNaN(x) != math.IsNaN(y)
	if oneNaN || math.IsInf(x, 0) || math.IsInf(y, 0) {
		abs, rel = math.Inf(1), math.Inf(1)
	}
	c.d.MaxAbs = Number(maxOf(float64(c.d.MaxAbs), abs))
	c.d.MaxRel = Number(maxOf(float64(c.d.MaxRel), rel))
	if c.ulp != nil && !math.IsNaN(x) && !math.IsNaN(y) {
		c.d.MaxULP = max(c.d.MaxULP, c.ulp(rawA, rawB))
	}
}

// maxOf ignores NaN, as of two NaNs whose bits differ.
func maxOf(a, b float64) float64 {
	if b > a {
		return b
	}
	return a
}

// ulpOf counts the representable values between two elements of one
// floating-point dtype; nil for others.
func ulpOf(a, b tensor.DType) func(a, b []byte) int64 {
	if a.ComplexPart().Valid() {
		a, b = a.ComplexPart(), b.ComplexPart()
	}
	if a != b || !a.IsFloat() || a == tensor.Float8E8M0FNU {
		return nil
	}
	return func(x, y []byte) int64 {
		i, j := ordered(x), ordered(y)
		if i < j {
			i, j = j, i
		}
		if d := uint64(i) - uint64(j); d < math.MaxInt64 {
			return int64(d)
		}
		return math.MaxInt64
	}
}

// ordered maps the bits of a float, little-endian, to an integer in the order of
// the values; both zeros are 0.
func ordered(raw []byte) int64 {
	var word [8]byte
	copy(word[8-len(raw):], raw)
	shift := 64 - 8*len(raw)
	bits := binary.LittleEndian.Uint64(word[:])
	magnitude := int64(bits<<1>>1) >> shift
	if bits>>63 != 0 {
		return -magnitude
	}
	return magnitude
}

// indexOf turns an element's number in C order into its index.
func indexOf(n int, shape []int) []int {
	index := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		index[i] = n % shape[i]
		n /= shape[i]
	}
	return index
}
