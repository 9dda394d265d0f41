package data

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ReadCSV reads comma-separated values (RFC 4180) from r until its end; name stands
// for it in messages. The first line names the columns; where it has no comma, a
// semicolon or tab may separate. The text must be UTF-8. A cell holds a number as
// Python writes it, True or False (1 and 0), or a list of numbers in JSON's
// notation; what else a column holds is an error only once it is asked for.
func ReadCSV(r io.Reader, name string) (*Table, error) {
	digest := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(r, digest), 1<<18)
	b := newBuilder(name)
	head, err := in.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("data file %s: %w", name, err)
	}
	if problem := binaryFormat(head); problem != "" {
		return nil, b.table.at(&TableError{Problem: problem + "; expected CSV"})
	}
	if bytes.HasPrefix(head, []byte("\ufeff")) {
		_, _ = in.Discard(3) // they were peeked at
	}
	cells := csv.NewReader(in)
	cells.Comma = separatorOf(head)
	cells.ReuseRecord = true
	for {
		record, err := cells.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = b.record(record, cells)
		}
		if err != nil {
			return nil, b.table.csvError(err)
		}
	}
	return b.finish(digest)
}

// separatorOf is what separates the cells of the first line.
func separatorOf(head []byte) rune {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	for _, separator := range ",;\t" {
		if bytes.ContainsRune(line, separator) {
			return separator
		}
	}
	return ','
}

func (t *Table) csvError(err error) error {
	var syntax *csv.ParseError
	var problem *TableError
	switch {
	case errors.As(err, &problem):
		return t.at(problem)
	case !errors.As(err, &syntax):
		return fmt.Errorf("data file %s: %w", t.path, err)
	case errors.Is(err, csv.ErrFieldCount):
		return t.at(&TableError{Line: syntax.StartLine, Problem: "not as many cells as the first line has: a line may be cut, or a cell with a comma in it lacks quotes"})
	}
	return t.at(&TableError{Line: syntax.Line, Problem: fmt.Sprintf("character %d: %v", syntax.Column, syntax.Err), Err: syntax.Err})
}

// record takes the cells of one line in; the first line is the header.
func (b *builder) record(record []string, cells *csv.Reader) error {
	line, _ := cells.FieldPos(0)
	for i, cell := range record {
		if !utf8.ValidString(cell) {
			line, column := cells.FieldPos(i)
			return &TableError{Line: line, Problem: fmt.Sprintf("character %d: a cell that is not UTF-8 text: convert the file to UTF-8", column)}
		}
	}
	if b.columns == nil {
		return b.header(record, line)
	}
	for i, cell := range record {
		line, _ := cells.FieldPos(i)
		if c := b.columns[i]; c.err == nil {
			c.cell(strings.TrimSpace(cell), line)
		}
	}
	b.rows++
	return nil
}

func (b *builder) header(names []string, line int) error {
	numbers := 0
	for _, name := range names {
		name = strings.TrimSpace(name)
		if _, err := strconv.ParseFloat(name, 64); err == nil {
			numbers++
		}
		if b.byName[name] != nil {
			return &TableError{Line: line, Column: name, Problem: "the first line has this name twice"}
		}
		if _, err := b.newColumn(name); err != nil {
			return &TableError{Line: line, Problem: err.Error()}
		}
	}
	if numbers == len(names) {
		return &TableError{Line: line, Problem: "the first line has numbers only, expected the names of the columns: CSV needs a header"}
	}
	return nil
}

// cell consumes the cell of one row. A cell that is no number of the column's
// shape fails the column.
func (c *textColumn) cell(text string, line int) {
	switch {
	case strings.HasPrefix(text, "["):
		s := &scanner{text: []byte(text)}
		err := c.read(s, line)
		if err == nil {
			if s.peek(); s.at < len(s.text) && c.err == nil {
				err = s.errorf("%q after the list", s.text[s.at])
			}
		}
		if err != nil {
			c.fail(line, "a list that is not in JSON's notation: %v", err)
		}
	case text == "":
		c.fail(line, "an empty cell, expected a number")
	default:
		c.scalar(text, line)
	}
}

// scalar consumes a cell that is one number.
func (c *textColumn) scalar(text string, line int) {
	number, integer, ok := pythonNumber(text)
	switch {
	case !ok:
		c.fail(line, "%.40q, expected a number", text)
	case c.shape == nil:
		c.shape, c.firstRow = []int{}, line
	case len(c.shape) != 0:
		c.fail(line, "a number, expected %s as on line %d", describeShape(c.shape), c.firstRow)
	}
	if c.err == nil {
		c.append([]byte(number), integer, line)
		c.line = line
	}
}

// pythonNumber tells whether text is what Python's int and float read or str(bool)
// writes, and gives it in Go's notation.
func pythonNumber(text string) (number string, integer, ok bool) {
	switch text {
	case "True", "true":
		return "1", true, true
	case "False", "false":
		return "0", true, true
	}
	text, plus := strings.CutPrefix(text, "+")
	digits, minus := strings.CutPrefix(text, "-")
	switch {
	case plus && minus, strings.ContainsAny(digits, "xXpP_"): // Go's hexadecimal floats
		return "", false, false
	case digits != "" && strings.Trim(digits, "0123456789") == "":
		return text, true, true
	}
	_, err := strconv.ParseFloat(text, 64)
	return text, false, err == nil || errors.Is(err, strconv.ErrRange)
}
