package data

import (
	"encoding/binary"
	"fmt"
	"os"

	"rejoin/ckpt/safetensors"
	"rejoin/tensor"
)

// addSafetensors adds each tensor as a column, rows along dimension 0. They are
// read in their place in the file.
func (t *Table) addSafetensors(f *os.File) *TableError {
	s, err := safetensors.Open(f.Name())
	if err != nil {
		return &TableError{Problem: err.Error(), Err: err}
	}
	defer func() { _ = s.Close() }() // only its header is needed
	var length [8]byte
	if _, err := f.ReadAt(length[:], 0); err != nil {
		return &TableError{Problem: err.Error(), Err: err}
	}
	begin := 8 + int64(binary.LittleEndian.Uint64(length[:]))
	for _, e := range s.Entries() {
		rows, elem := -1, tensor.Invalid
		if len(e.Shape) > 0 {
			rows = e.Shape[0]
		}
		if x, ok := s.StateDict().Get(e.Name); ok {
			elem = x.DType
		}
		if err := t.addColumn(tensorColumn(f, begin, e, elem), rows); err != nil {
			return err
		}
	}
	return nil
}

// tensorColumn is the column of one tensor; begin is where tensors begin in f.
func tensorColumn(f *os.File, begin int64, e safetensors.Entry, elem tensor.DType) *column {
	problem := ""
	switch {
	case elem == tensor.Invalid:
		problem = e.DType + " elements, expected integers or floats"
	case len(e.Shape) == 0:
		problem = "one number, expected rows along dimension 0"
	case elements(e.Shape[1:]) == 0:
		problem = fmt.Sprintf("rows of shape %v, which have no numbers", e.Shape[1:])
	default:
		problem = readable(elem)
	}
	if problem != "" {
		return failed(e.Name, &TableError{Problem: problem})
	}
	return loaded(e.Name, &raw{
		at: f, offset: begin + int64(e.Begin), stride: int64(elements(e.Shape[1:]) * elem.Size()),
		rowShape: e.Shape[1:], elem: elem,
	})
}
