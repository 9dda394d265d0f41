package tensor

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Storage is the flat run of bytes that one or more tensors view, little-endian
// as torch writes it.
type Storage struct {
	// Data may be a read-only memory mapping; nobody writes to it. It is nil for
	// a meta storage, which has a size and no bytes.
	Data []byte
	// Device is the tag the storage was saved with, such as "cuda:0", after
	// map_location: normally "cpu".
	Device string
	// SavedDevice is the tag that stood in the file; "" if it came from no file.
	SavedDevice string
	// Key names the storage in its file ("0", "1" …); "" if it came from no file.
	Key string
}

// Tensor is a strided view of a storage. Its invariants, held by [Tensor.Check]:
//
//  1. DType is valid; len(Shape) == len(Stride); no dimension is negative.
//  2. Every element it can address lies inside Storage.Data, unless Meta.
type Tensor struct {
	DType  DType
	Shape  []int
	Stride []int // in elements
	Offset int   // in elements
	// Storage is shared by tensors that are views of each other, or tied.
	Storage      *Storage
	RequiresGrad bool
	// Meta marks a tensor of torch's meta device: a shape without bytes. It is
	// never read as zeros.
	Meta bool
}

// NumElements is the product of the dimensions; 1 for a 0-d tensor.
func (t *Tensor) NumElements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// ContiguousStride is the stride, in elements, of a C-contiguous tensor.
// As in torch, a dimension of size 0 counts as 1.
func ContiguousStride(shape []int) []int {
	stride := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		stride[i] = n
		n *= max(shape[i], 1)
	}
	return stride
}

// IsContiguous reports whether the elements lie in C order without gaps.
func (t *Tensor) IsContiguous() bool {
	want := 1
	for i, v := range slices.Backward(t.Shape) {
		if v == 0 {
			return true
		}
		if v != 1 && t.Stride[i] != want {
			return false
		}
		want *= v
	}
	return true
}

// Check returns an error that says what is wrong if t breaks its invariants.
// A tensor from an untrusted file must pass it before anything reads it.
func (t *Tensor) Check() error {
	if !t.DType.Valid() {
		return fmt.Errorf("dtype %v is not known", t.DType)
	}
	if len(t.Shape) != len(t.Stride) {
		return fmt.Errorf("shape %v has %d dimensions, stride %v has %d", t.Shape, len(t.Shape), t.Stride, len(t.Stride))
	}
	last, err := t.lastElement()
	if err != nil {
		return err
	}
	if t.Meta {
		return nil
	}
	if t.Storage == nil {
		return fmt.Errorf("tensor of shape %v has no storage", t.Shape)
	}
	have := len(t.Storage.Data) / t.DType.Size()
	if last >= have {
		return fmt.Errorf("shape %v, stride %v, offset %d reach element %d, but storage %q holds %d", t.Shape, t.Stride, t.Offset, last, t.Storage.Key, have)
	}
	return nil
}

// lastElement is the largest storage index that t addresses, -1 if it is empty.
func (t *Tensor) lastElement() (int, error) {
	if t.Offset < 0 {
		return 0, fmt.Errorf("storage offset %d is negative", t.Offset)
	}
	total, last := uint64(1), uint64(t.Offset)
	empty := false
	for i, d := range t.Shape {
		if d < 0 || t.Stride[i] < 0 {
			return 0, fmt.Errorf("shape %v, stride %v: a dimension or stride is negative", t.Shape, t.Stride)
		}
		if d == 0 {
			empty = true
			continue
		}
		hi, n := bits.Mul64(total, uint64(d))
		hi2, reach := bits.Mul64(uint64(d-1), uint64(t.Stride[i]))
		sum, carry := bits.Add64(last, reach, 0)
		if hi|hi2|carry != 0 || n > math.MaxInt64/16 || sum > math.MaxInt64/16 {
			return 0, fmt.Errorf("shape %v, stride %v overflow 64 bits", t.Shape, t.Stride)
		}
		total, last = n, sum
	}
	if empty {
		return -1, nil
	}
	return int(last), nil
}

// Bytes returns the elements as C-contiguous little-endian bytes: a view of the
// storage if t is contiguous (not to be written to), else a copy.
// It fails for a meta tensor.
func (t *Tensor) Bytes() ([]byte, error) {
	if t.Meta {
		return nil, t.noElements()
	}
	size := t.DType.Size()
	n := t.NumElements()
	if n == 0 {
		return nil, nil
	}
	if t.IsContiguous() {
		from := t.Offset * size
		return t.Storage.Data[from : from+n*size : from+n*size], nil
	}
	out := make([]byte, 0, n*size)
	t.eachRun(func(index int) {
		out = append(out, t.Storage.Data[index*size:(index+1)*size]...)
	})
	return out, nil
}

func (t *Tensor) noElements() error {
	return fmt.Errorf("tensor of shape %v is on the meta device: it has no elements", t.Shape)
}

// eachRun calls f with the storage index of every element, in C order.
func (t *Tensor) eachRun(f func(index int)) {
	at := make([]int, len(t.Shape))
	index := t.Offset
	for range t.NumElements() {
		f(index)
		for i := len(at) - 1; i >= 0; i-- {
			at[i]++
			index += t.Stride[i]
			if at[i] < t.Shape[i] {
				break
			}
			index -= at[i] * t.Stride[i]
			at[i] = 0
		}
	}
}

// SameShape reports whether t has exactly this shape; nothing is broadcast.
func (t *Tensor) SameShape(shape []int) bool { return slices.Equal(t.Shape, shape) }

// String describes t without its elements, as in "float32[10 1]".
func (t *Tensor) String() string { return fmt.Sprintf("%v%v", t.DType, t.Shape) }
