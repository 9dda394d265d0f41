package data

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"rejoin/data/internal/npy"
)

// unnamedArray is the name that numpy.savez gives to an array without one. An NPY
// file, whose array has none either, is read as a column of that name.
const unnamedArray = "arr_0"

// addNPY adds the array of an NPY file: its rows lie along dimension 0. Each field
// of a structured array is a column.
func (t *Table) addNPY(f *os.File, size int64) *TableError {
	h, err := npy.ReadHeader(io.NewSectionReader(f, 0, size))
	if err != nil {
		return &TableError{Problem: err.Error(), Err: err}
	}
	return t.addArray(unnamedArray, h, size, func() (io.ReaderAt, int64, error) { return f, h.Begin, nil })
}

// addNPZ adds each array of an NPZ file.
func (t *Table) addNPZ(f *os.File, size int64) *TableError {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return &TableError{Problem: fmt.Sprintf("a damaged or cut zip archive: %v", err), Err: err}
	}
	for _, member := range z.File {
		name, ok := strings.CutSuffix(member.Name, ".npy")
		if !ok {
			return &TableError{Problem: fmt.Sprintf("a zip archive with %q in it: an NPZ file holds arrays (.npy) only; unpack it first", member.Name)}
		}
		if err := t.addMember(f, name, member); err != nil {
			if err.Column == "" {
				err.Column = name
			}
			return err
		}
	}
	return nil
}

// addMember adds one array of an NPZ file. A stored one is read in its place, a
// compressed one is unpacked once it is asked for.
func (t *Table) addMember(f *os.File, name string, member *zip.File) *TableError {
	unpacked, err := member.Open()
	if err != nil {
		return &TableError{Problem: err.Error(), Err: err}
	}
	defer func() { _ = unpacked.Close() }() // only read from
	h, err := npy.ReadHeader(unpacked)
	if err != nil {
		return &TableError{Problem: err.Error(), Err: err}
	}
	if member.UncompressedSize64 > math.MaxInt64 {
		return &TableError{Problem: "the archive claims more than 2⁶³ bytes"}
	}
	return t.addArray(name, h, int64(member.UncompressedSize64), func() (io.ReaderAt, int64, error) {
		if member.Method == zip.Store {
			at, err := member.DataOffset()
			return f, at + h.Begin, err
		}
		content, err := unpack(member)
		return bytes.NewReader(content), h.Begin, err
	})
}

// unpack reads a compressed member whole. Deflate cannot unpack to more than about
// a thousand times what the file has.
func unpack(member *zip.File) ([]byte, error) {
	r, err := member.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // only read from
	return io.ReadAll(r)
}

// addArray adds the columns of one array of size bytes, header included. content
// gives where its elements begin.
func (t *Table) addArray(name string, h *npy.Header, size int64, content func() (io.ReaderAt, int64, error)) *TableError {
	if have := size - h.Begin; have != h.Size {
		return &TableError{Problem: fmt.Sprintf("an array of shape %v takes %d bytes, the file has %d: it is cut or damaged", h.Shape, h.Size, have)}
	}
	if len(h.Shape) == 0 {
		return t.addColumn(failed(name, &TableError{Problem: "one number, expected rows along dimension 0"}), -1)
	}
	for _, field := range h.Fields {
		if field.Name == "" {
			field.Name = name
		}
		load := func() (values, *TableError) { return loadArray(h, field, content) }
		if err := t.addColumn(&column{name: field.Name, load: load}, h.Shape[0]); err != nil {
			return err
		}
	}
	return nil
}

// addColumn adds a column of rows rows, -1 if it has none. All columns of a table
// have equally many.
func (t *Table) addColumn(c *column, rows int) *TableError {
	if t.byName[c.name] != nil {
		return &TableError{Column: c.name, Problem: "the file has this column twice"}
	}
	if len(t.columns) == maxColumns {
		return &TableError{Problem: fmt.Sprintf("more than %d columns in one file", maxColumns)}
	}
	if first := t.sized; rows >= 0 && first != "" && rows != t.rows {
		return &TableError{Column: c.name, Problem: fmt.Sprintf("%d rows, column %q has %d: all columns of a table need equally many", rows, first, t.rows)}
	}
	if rows >= 0 {
		t.sized, t.rows = c.name, rows
	}
	t.add(c)
	return nil
}

// loadArray makes the column of one field. An array in Fortran's order is copied
// into memory in C order, others stay where they are.
func loadArray(h *npy.Header, field npy.Field, content func() (io.ReaderAt, int64, error)) (values, *TableError) {
	problem := field.Problem
	if problem == "" {
		problem = readable(field.DType)
	}
	if problem != "" {
		return nil, &TableError{Problem: problem + ", expected numbers"}
	}
	rowShape := slices.Concat(h.Shape[1:], field.Shape)
	if elements(rowShape) == 0 {
		return nil, &TableError{Problem: fmt.Sprintf("rows of shape %v, which have no numbers", rowShape)}
	}
	at, begin, err := content()
	if err != nil {
		return nil, &TableError{Problem: err.Error(), Err: err}
	}
	inner := elements(h.Shape[1:])
	if len(h.Shape) > 1 && len(h.Fields) == 1 && field.Shape == nil && h.Fortran {
		buf, err := fromFortran(io.NewSectionReader(at, begin, h.Size), h.Shape, h.ItemSize)
		if err != nil {
			return nil, &TableError{Problem: err.Error(), Err: err}
		}
		at, begin = bytes.NewReader(buf), 0
	} else if inner != 1 && field.Bytes() != h.ItemSize || h.Fortran && len(h.Shape) > 1 {
		return nil, &TableError{Problem: fmt.Sprintf("a field of a structured array of shape %v, expected one dimension", h.Shape)}
	}
	return &raw{
		at: at, offset: begin + int64(field.Offset), stride: int64(inner) * int64(h.ItemSize),
		rowShape: rowShape, elem: field.DType, bigEndian: field.BigEndian,
	}, nil
}

// fromFortran brings items of the given size into C order.
func fromFortran(r io.Reader, shape []int, item int) ([]byte, error) {
	in, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	n := elements(shape)
	if len(in) != n*item {
		return nil, io.ErrUnexpectedEOF
	}
	out := make([]byte, len(in))
	index := make([]int, len(shape))
	for from := range n { // index counts as Fortran does: the first runs fastest
		to := 0
		for d, i := range index {
			to = to*shape[d] + i
		}
		copy(out[to*item:(to+1)*item], in[from*item:])
		for d := range index {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
	}
	return out, nil
}
