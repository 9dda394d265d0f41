package data

import (
	"fmt"
	"sync"

	"rejoin/tensor"
)

// values are the rows of a column of numbers. The rows asked for exist, and the
// destination has room for exactly them.
type values interface {
	shape() []int        // of a row
	dtype() tensor.DType // Int64 or Float32
	float32s(rows []int, dst []float32) *TableError
	int64s(rows []int, dst []int64) *TableError
}

// column is one column of a table. It is loaded when it is first asked for.
type column struct {
	name string
	load func() (values, *TableError)

	once   sync.Once
	values values
	err    *TableError
}

func (c *column) get() (values, *TableError) {
	c.once.Do(func() { c.values, c.err = c.load() })
	return c.values, c.err
}

// loaded is a column that is there already.
func loaded(name string, v values) *column {
	return &column{name: name, load: func() (values, *TableError) { return v, nil }}
}

// failed is a column that cannot be read.
func failed(name string, err *TableError) *column {
	return &column{name: name, load: func() (values, *TableError) { return nil, err }}
}

// elements is the number of elements of a row.
func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// numbers are the rows of a text column: integers or, if any of its numbers was
// none, floats.
type numbers struct {
	rowShape   []int
	size       int
	ints       []int64
	floats     []float32
	isFloat    bool
	firstFloat int // the line of the first number that is no integer
}

func (n *numbers) shape() []int { return n.rowShape }

func (n *numbers) dtype() tensor.DType {
	if n.isFloat {
		return tensor.Float32
	}
	return tensor.Int64
}

func (n *numbers) float32s(rows []int, dst []float32) *TableError {
	for i, row := range rows {
		to := dst[i*n.size : (i+1)*n.size]
		if n.isFloat {
			copy(to, n.floats[row*n.size:])
			continue
		}
		for j, v := range n.ints[row*n.size : (row+1)*n.size] {
			to[j] = float32(float64(v))
		}
	}
	return nil
}

func (n *numbers) int64s(rows []int, dst []int64) *TableError {
	if n.isFloat {
		return &TableError{Line: n.firstFloat, Problem: "a number that is not an integer, expected a column of integers"}
	}
	for i, row := range rows {
		copy(dst[i*n.size:(i+1)*n.size], n.ints[row*n.size:])
	}
	return nil
}

// notIntegers refuses to read floats as integers.
func notIntegers(d tensor.DType) *TableError {
	return &TableError{Problem: fmt.Sprintf("%v numbers, expected a column of integers", d)}
}
