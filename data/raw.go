package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"rejoin/tensor"
)

// raw are rows in their file's own encoding, in the file or in memory. Row i is
// the elements in C order that begin at byte offset + i × stride.
type raw struct {
	at             io.ReaderAt
	offset, stride int64
	rowShape       []int
	elem           tensor.DType
	bigEndian      bool
}

// inMemory is raw rows one after the other, little-endian.
func inMemory(content []byte, rowShape []int, elem tensor.DType) *raw {
	stride := int64(elements(rowShape) * elem.Size())
	return &raw{at: bytes.NewReader(content), stride: stride, rowShape: rowShape, elem: elem}
}

// readable returns what stands against reading elements of type d, "" if nothing.
func readable(d tensor.DType) string {
	if !d.IsInteger() && !d.IsReal() {
		return fmt.Sprintf("%v elements, expected integers or floats of at most 64 bits", d)
	}
	return ""
}

func (r *raw) shape() []int { return r.rowShape }

func (r *raw) dtype() tensor.DType {
	if r.elem.IsInteger() {
		return tensor.Int64
	}
	return tensor.Float32
}

// each reads rows one by one; the tensor is valid until f returns.
func (r *raw) each(rows []int, f func(i int, row *tensor.Tensor) error) *TableError {
	width := r.elem.Size()
	content := make([]byte, elements(r.rowShape)*width)
	row := &tensor.Tensor{
		DType: r.elem, Shape: r.rowShape, Stride: tensor.ContiguousStride(r.rowShape),
		Storage: &tensor.Storage{Data: content, Device: "cpu"},
	}
	for i, number := range rows {
		if _, err := r.at.ReadAt(content, r.offset+int64(number)*r.stride); err != nil && (len(content) > 0 || !errors.Is(err, io.EOF)) {
			return &TableError{Problem: fmt.Sprintf("row %d cannot be read any more: %v; did the file change?", number, err), Err: err}
		}
		if r.bigEndian && width > 1 {
			for at := 0; at < len(content); at += width {
				slices.Reverse(content[at : at+width])
			}
		}
		if err := f(i, row); err != nil {
			return &TableError{Problem: fmt.Sprintf("row %d: %v", number, err), Err: err}
		}
	}
	return nil
}

func (r *raw) float32s(rows []int, dst []float32) *TableError {
	size := elements(r.rowShape)
	return r.each(rows, func(i int, row *tensor.Tensor) error {
		return row.ReadFloat32(dst[i*size : (i+1)*size])
	})
}

func (r *raw) int64s(rows []int, dst []int64) *TableError {
	if !r.elem.IsInteger() {
		return notIntegers(r.elem)
	}
	size := elements(r.rowShape)
	return r.each(rows, func(i int, row *tensor.Tensor) error {
		return row.ReadInt64(dst[i*size : (i+1)*size])
	})
}
