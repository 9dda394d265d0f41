package data

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"rejoin/tensor"
)

// Table gives the number columns of a data file. What it does not hold in memory
// it reads from its file, which must not change while the table is open. It may be
// read by many goroutines.
type Table struct {
	path    string
	digest  string
	rows    int
	columns []*column // in the order of the file
	byName  map[string]*column
	files   []*os.File // that columns are read from
	sized   string     // while opening: the last column that said how many rows there are
}

func newTable(path string) *Table {
	return &Table{path: path, byName: map[string]*column{}}
}

// add appends a column, whose name must be new.
func (t *Table) add(c *column) {
	t.columns = append(t.columns, c)
	t.byName[c.name] = c
}

// Close closes the table's files, if it has any open. The table must not be used
// any more.
func (t *Table) Close() error {
	var errs []error
	for _, f := range t.files {
		errs = append(errs, f.Close())
	}
	t.files = nil
	return errors.Join(errs...)
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

// Digest is the SHA-256 of the file's bytes, in hexadecimal. For a directory it is
// that of the lines "DIGEST  NAME\n" of its data files, in their order.
func (t *Table) Digest() string { return t.digest }

// Path is the name under which the file was opened.
func (t *Table) Path() string { return t.path }

// RowShape returns the shape of each row of a column (empty for a number, [64] for
// a list of 64) and its element type: Int64 if every number in the file is an
// integer, else Float32. It fails with a [*TableError] that names the first row
// at fault if the column is missing in a row, holds anything but numbers, or has
// rows of different shapes. If there is no such column but columns name0, name1 …
// (or name_0, name.0) of single numbers are, these are one column of lists.
func (t *Table) RowShape(column string) ([]int, tensor.DType, error) {
	v, err := t.values(column)
	if err != nil {
		return nil, tensor.Invalid, err
	}
	return slices.Clone(v.shape()), v.dtype(), nil
}

// ReadFloat32 fills dst with the given rows of a column, one after the other, each
// in C order; len(dst) must be len(rows) times the product of the row's shape.
// Numbers in text are read as float64 and rounded to float32, integers too; others
// are converted as torch's Tensor.to(torch.float32) does.
func (t *Table) ReadFloat32(column string, rows []int, dst []float32) error {
	v, err := t.request(column, rows, len(dst))
	if err != nil {
		return err
	}
	return t.about(column, v.float32s(rows, dst))
}

// ReadInt64 is [Table.ReadFloat32] for a column of integers. It refuses a column
// of floats, even if these are whole: torch makes no class numbers of 1.0.
func (t *Table) ReadInt64(column string, rows []int, dst []int64) error {
	v, err := t.request(column, rows, len(dst))
	if err != nil {
		return err
	}
	return t.about(column, v.int64s(rows, dst))
}

// request finds a column and checks that rows of it fill a destination.
func (t *Table) request(column string, rows []int, dst int) (values, error) {
	v, err := t.values(column)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row < 0 || row >= t.rows {
			return nil, t.at(&TableError{Column: column, Problem: fmt.Sprintf("row %d was asked for, the file has rows 0 to %d", row, t.rows-1)})
		}
	}
	if size := elements(v.shape()); dst != len(rows)*size {
		return nil, t.at(&TableError{Column: column, Problem: fmt.Sprintf("%d rows of %s are %d elements, the destination has %d", len(rows), describeShape(v.shape()), len(rows)*size, dst)})
	}
	return v, nil
}

// values finds a column of numbers.
func (t *Table) values(name string) (values, error) {
	c, ok := t.byName[name]
	if !ok {
		parts := t.numbered(name)
		if parts == nil {
			return nil, t.at(&TableError{Column: name, Problem: "no such column; the file has " + t.someColumns()})
		}
		v, err := newGroup(parts)
		return v, t.about(name, err)
	}
	v, err := c.get()
	return v, t.about(name, err)
}

// about completes an error about a column.
func (t *Table) about(column string, err *TableError) error {
	if err == nil {
		return nil
	}
	e := *err
	if e.Column == "" {
		e.Column = column
	}
	return t.at(&e)
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
