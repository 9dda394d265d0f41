package data

import (
	"encoding/hex"
	"fmt"
	"hash"
)

// More columns than this are a file of something else.
const maxColumns = 1 << 16

// builder makes a table from the lines of a text file.
type builder struct {
	table   *Table
	rows    int
	columns []*textColumn // in the order of their first appearance
	byName  map[string]*textColumn
	live    []*textColumn // those without an error, present in every row so far
	first   int           // the line of the first row
}

func newBuilder(name string) *builder {
	return &builder{table: newTable(name), byName: map[string]*textColumn{}}
}

// finish is called after the last row; digest has seen the file's bytes.
func (b *builder) finish(digest hash.Hash) (*Table, error) {
	if b.rows == 0 {
		return nil, b.table.at(&TableError{Problem: "the file has no rows"})
	}
	b.table.digest = hex.EncodeToString(digest.Sum(nil))
	b.table.rows = b.rows
	for _, c := range b.columns {
		b.table.add(c.finish())
	}
	return b.table, nil
}

func (b *builder) newColumn(name string) (*textColumn, error) {
	if len(b.columns) == maxColumns {
		return nil, fmt.Errorf("more than %d different keys in one file", maxColumns)
	}
	c := &textColumn{name: name}
	if b.rows > 0 {
		c.fail(b.first, "the column is missing in this row")
	} else {
		b.live = append(b.live, c)
	}
	b.columns = append(b.columns, c)
	b.byName[name] = c
	return c, nil
}

// dropMissing fails the columns that this row lacks. A failed column leaves the
// list, so a file cannot make this slow.
func (b *builder) dropMissing(line int) {
	kept := b.live[:0]
	for _, c := range b.live {
		if c.err == nil && c.line != line {
			c.fail(line, "the column is missing in this row")
		}
		if c.err == nil {
			kept = append(kept, c)
		}
	}
	b.live = kept
}
