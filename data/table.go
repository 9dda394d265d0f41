package data

import (
	"fmt"
	"slices"
	"strings"

	"rejoin/tensor"
)

// Table holds the number columns of a data file in memory. It does not change
// once it is open, and may be read by many goroutines.
type Table struct {
	path    string
	digest  string
	rows    int
	columns []*column // in the order of their first appearance
	byName  map[string]*column
}

// Len is the number of rows.
func (t *Table) Len() int { return t.rows }

// Columns lists the names of all columns, in the order of the file, also of those
// that cannot be read as numbers.
func (t *Table) Columns() []string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return names
}

// Digest is the SHA-256 of the file's bytes, in hexadecimal.
func (t *Table) Digest() string { return t.digest }

// Path is the name under which the file was opened.
func (t *Table) Path() string { return t.path }

// RowShape returns the shape of each row of a column (empty for a number, [64] for
// a list of 64) and its element type: Int64 if every number in the file is an
// integer, else Float32. It fails with a [*TableError] that names the first line
// at fault if the column is missing in a row, holds anything but numbers, or has
// rows of different shapes.
func (t *Table) RowShape(column string) ([]int, tensor.DType, error) {
	c, err := t.column(column)
	if err != nil {
		return nil, tensor.Invalid, err
	}
	return slices.Clone(c.shape), c.dtype(), nil
}

// ReadFloat32 fills dst with the given rows of a column, one after the other, each
// in C order; len(dst) must be len(rows) times the product of the row's shape.
// Numbers are read as float64 and rounded to float32, integers too.
func (t *Table) ReadFloat32(column string, rows []int, dst []float32) error {
	c, err := t.request(column, rows, len(dst))
	if err != nil {
		return err
	}
	size := c.size()
	for i, row := range rows {
		to := dst[i*size : (i+1)*size]
		if c.isFloat {
			copy(to, c.floats[row*size:])
			continue
		}
		for j, v := range c.ints[row*size : (row+1)*size] {
			to[j] = float32(float64(v))
		}
	}
	return nil
}

// ReadInt64 is [Table.ReadFloat32] for a column of integers. It refuses a column
// of floats, even if these are whole: torch makes no class numbers of 1.0.
func (t *Table) ReadInt64(column string, rows []int, dst []int64) error {
	c, err := t.request(column, rows, len(dst))
	if err != nil {
		return err
	}
	if c.isFloat {
		return t.at(&TableError{Line: c.firstFloat, Column: column, Problem: "a number that is not an integer, expected a column of integers"})
	}
	size := c.size()
	for i, row := range rows {
		copy(dst[i*size:(i+1)*size], c.ints[row*size:])
	}
	return nil
}

// request finds a column and checks that rows of it fill a destination.
func (t *Table) request(column string, rows []int, dst int) (*column, error) {
	c, err := t.column(column)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row < 0 || row >= t.rows {
			return nil, t.at(&TableError{Column: column, Problem: fmt.Sprintf("row %d was asked for, the file has rows 0 to %d", row, t.rows-1)})
		}
	}
	if size := c.size(); dst != len(rows)*size {
		return nil, t.at(&TableError{Column: column, Problem: fmt.Sprintf("%d rows of %s are %d elements, the destination has %d", len(rows), describeShape(c.shape), len(rows)*size, dst)})
	}
	return c, nil
}

func (t *Table) column(name string) (*column, error) {
	c, ok := t.byName[name]
	if !ok {
		return nil, t.at(&TableError{Column: name, Problem: "no such column; the file has " + t.someColumns()})
	}
	if c.err != nil {
		return nil, t.at(c.err)
	}
	return c, nil
}

// at returns a copy of err that names the file.
func (t *Table) at(err *TableError) error {
	e := *err
	e.Path = t.path
	return &e
}

func (t *Table) someColumns() string {
	const most = 20
	names := t.Columns()
	quoted := make([]string, min(len(names), most))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%q", names[i])
	}
	list := strings.Join(quoted, ", ")
	if len(names) > most {
		list += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return list
}
