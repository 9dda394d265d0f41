package data

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"rejoin/data/internal/columnar"
)

// addColumnar adds the columns of a Parquet or Arrow file. Each is read into memory
// when it is first asked for; those never asked for are not.
func (t *Table) addColumnar(kind format, f *os.File, size int64) *TableError {
	file, err := openColumnar(kind, columnar.Input{ReaderAt: f, Size: size})
	if err != nil {
		return &TableError{Problem: err.Error(), Err: err}
	}
	for i, name := range file.Names {
		load := func() (values, *TableError) { return loadColumnar(i, file) }
		if err := t.addColumn(&column{name: name, load: load}, file.Rows); err != nil {
			return err
		}
	}
	return nil
}

func openColumnar(kind format, in columnar.Input) (*columnar.File, error) {
	switch kind {
	case parquetFile:
		return columnar.OpenParquet(in)
	case arrowFile:
		return columnar.OpenArrow(in)
	default:
		return columnar.OpenArrowStream(in)
	}
}

// loadColumnar reads column i of files with equal schemas, one after the other.
func loadColumnar(i int, files ...*columnar.File) (values, *TableError) {
	var all *columnar.Column
	rows := 0
	for _, file := range files {
		part, err := file.ReadColumn(i)
		if err != nil {
			return nil, columnarError(err, rows)
		}
		rows += part.Rows
		switch {
		case part.Rows == 0:
		case all == nil:
			all = part
		case !slices.Equal(all.RowShape, part.RowShape):
			return nil, &TableError{Problem: fmt.Sprintf("row %d: %s, expected %s as in row 0", all.Rows, describeShape(part.RowShape), describeShape(all.RowShape))}
		default:
			all.Content = append(all.Content, part.Content...)
			all.Rows += part.Rows
		}
	}
	return inMemory(all.Content, all.RowShape, all.DType), nil
}

// columnarError says which row of the table is at fault; the file's first is number
// firstRow.
func columnarError(err error, firstRow int) *TableError {
	problem := err.Error()
	if row := (*columnar.RowError)(nil); errors.As(err, &row) {
		problem = fmt.Sprintf("row %d: %s", firstRow+row.Row, row.Problem)
	}
	return &TableError{Problem: problem, Err: err}
}
