package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strings"

	"rejoin/tensor"
)

// Magic is how an NPY file begins.
const Magic = "\x93NUMPY"

// The longest header that is read, in bytes: numpy's own limit is 10,000.
const maxHeader = 1 << 20

// The most dimensions of an array; numpy has 64.
const maxDims = 64

// Header describes the one array of an NPY file.
type Header struct {
	Shape    []int
	Fortran  bool    // the first index runs fastest
	Fields   []Field // of a structured type; else one without a name
	ItemSize int     // bytes of one element: all fields and the gaps between them
	Begin    int64   // where the elements begin in the file
	Size     int64   // bytes of all elements
}

// Field is one part of an element.
type Field struct {
	Name      string
	DType     tensor.DType // Invalid if Problem says why there are no numbers
	Problem   string
	BigEndian bool
	Shape     []int
	Offset    int // bytes from the element's beginning
	size      int
}

// Bytes is the size of the field in one element.
func (f *Field) Bytes() int { return f.size }

// ReadHeader reads from an NPY file's beginning. What it allocates is bounded by
// what r gives. It fails if the header is cut, malformed or of unreasonable size.
func ReadHeader(r io.Reader) (*Header, error) {
	var start [12]byte
	if _, err := io.ReadFull(r, start[:10]); err != nil {
		return nil, cut(err)
	}
	if string(start[:6]) != Magic {
		return nil, fmt.Errorf("it does not begin with %q", Magic)
	}
	length, begin := uint32(binary.LittleEndian.Uint16(start[8:])), int64(10)
	switch start[6] {
	case 1:
	case 2, 3:
		if _, err := io.ReadFull(r, start[10:]); err != nil {
			return nil, cut(err)
		}
		length, begin = binary.LittleEndian.Uint32(start[8:]), 12
	default:
		return nil, fmt.Errorf("NPY version %d.%d, versions 1 to 3 are known", start[6], start[7])
	}
	if length > maxHeader {
		return nil, fmt.Errorf("the header claims %d bytes, at most %d are read", length, maxHeader)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, cut(err)
	}
	h := &Header{Begin: begin + int64(length)}
	return h, h.parse(string(text))
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends in its header: it is cut")
	}
	return err
}

func (h *Header) parse(text string) error {
	l := &literal{text: text}
	v, err := l.value(0)
	if err != nil {
		return err
	}
	dict, _ := v.(map[string]any)
	if l.peek() != 0 || dict == nil {
		return errors.New("the header is not one dict of Python")
	}
	fortran, ok := dict["fortran_order"].(bool)
	if !ok {
		return errors.New("the header has no fortran_order of True or False")
	}
	h.Fortran = fortran
	if h.Shape, err = shapeOf(dict["shape"]); err != nil {
		return err
	}
	if h.ItemSize, err = h.addFields(dict["descr"]); err != nil {
		return err
	}
	size := uint64(h.ItemSize)
	for _, d := range h.Shape {
		hi, lo := bits.Mul64(size, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return fmt.Errorf("an array of shape %v overflows", h.Shape)
		}
		size = lo
	}
	h.Size = int64(size)
	return nil
}

func shapeOf(v any) ([]int, error) {
	if n, ok := v.(int64); ok {
		v = tuple{n} // a field's shape may be one number
	}
	items, ok := v.(tuple)
	if !ok || len(items) > maxDims {
		return nil, errors.New("the header has no shape: expected a tuple of sizes")
	}
	shape := make([]int, len(items))
	for i, item := range items {
		n, ok := item.(int64)
		if !ok || n < 0 || n > math.MaxInt32*1024 {
			return nil, fmt.Errorf("a size in the shape is %v, expected a number from 0 on", item)
		}
		shape[i] = int(n)
	}
	return shape, nil
}

// addFields takes descr in and returns the size of an element in bytes.
func (h *Header) addFields(descr any) (int, error) {
	if name, ok := descr.(string); ok {
		f, err := typeOf(name)
		h.Fields = []Field{f}
		return f.size, err
	}
	list, ok := descr.([]any)
	if !ok || len(list) == 0 {
		return 0, errors.New("the header has no descr: expected a type or a list of fields")
	}
	at := 0
	for _, item := range list {
		f, err := fieldOf(item)
		if err != nil {
			return 0, err
		}
		f.Offset = at
		if at += f.size; at > math.MaxInt32 {
			return 0, errors.New("an element is larger than 2 GiB")
		}
		if f.Name != "" { // else a gap
			h.Fields = append(h.Fields, f)
		}
	}
	return at, nil
}

// fieldOf reads (name, type) or (name, type, shape); name may be (title, name).
func fieldOf(item any) (Field, error) {
	parts, ok := item.(tuple)
	if !ok || len(parts) < 2 || len(parts) > 3 {
		return Field{}, fmt.Errorf("a field is %v, expected a name, a type and perhaps a shape", item)
	}
	if titled, ok := parts[0].(tuple); ok && len(titled) == 2 {
		parts[0] = titled[1]
	}
	name, ok := parts[0].(string)
	if !ok {
		return Field{}, fmt.Errorf("a field's name is %v, expected a string", parts[0])
	}
	var f Field
	var err error
	if kind, ok := parts[1].(string); ok {
		f, err = typeOf(kind)
	} else { // a structure in a structure: only its size matters
		inner := &Header{}
		f.Problem = "a structure"
		f.size, err = inner.addFields(parts[1])
	}
	if err != nil {
		return Field{}, err
	}
	f.Name = name
	if len(parts) == 3 {
		if f.Shape, err = shapeOf(parts[2]); err != nil {
			return Field{}, err
		}
	}
	for _, d := range f.Shape {
		if d > 0 && f.size > math.MaxInt32/d {
			return Field{}, fmt.Errorf("field %q is larger than 2 GiB", name)
		}
		f.size *= d
	}
	return f, nil
}

var numbers = map[string]tensor.DType{
	"b1": tensor.Bool, "i1": tensor.Int8, "i2": tensor.Int16, "i4": tensor.Int32, "i8": tensor.Int64,
	"u1": tensor.UInt8, "u2": tensor.UInt16, "u4": tensor.UInt32, "u8": tensor.UInt64,
	"f2": tensor.Float16, "f4": tensor.Float32, "f8": tensor.Float64,
}

var otherTypes = map[byte]string{
	'c': "complex numbers", 'f': "floats wider than 64 bits", 'S': "text", 'U': "text", 'a': "text",
	'V': "raw bytes", 'M': "dates", 'm': "time differences",
}

// typeOf reads a type such as "<f4".
func typeOf(name string) (Field, error) {
	if len(name) < 2 || !slices.Contains([]byte("<>|="), name[0]) {
		return Field{}, fmt.Errorf("type %q is not one of numpy's", name)
	}
	if d, ok := numbers[name[1:]]; ok {
		return Field{DType: d, BigEndian: name[0] == '>', size: d.Size()}, nil
	}
	if name[1] == 'O' {
		return Field{}, errors.New("the array holds Python objects, as a pickle that would have to be run: save it as an array of numbers")
	}
	kind, ok := otherTypes[name[1]]
	digits, _, _ := strings.Cut(name[2:], "[") // M8[ns]
	size, width := 0, 1
	if name[1] == 'U' {
		width = 4
	}
	if _, err := fmt.Sscanf(digits, "%d", &size); !ok || err != nil || size < 0 || size > math.MaxInt32/4 {
		return Field{}, fmt.Errorf("type %q is not one of numpy's", name)
	}
	return Field{Problem: kind + " (" + name + ")", size: size * width}, nil
}
