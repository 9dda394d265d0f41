package data

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// More columns than this are a file of something else.
const maxColumns = 1 << 16

// OpenJSONL reads a JSON Lines file: one object a line, each key a column. Blank
// lines are passed over; the text must be UTF-8. A column may hold numbers or equally nested, equally long
// lists of numbers; what else it holds is an error only once it is asked for.
// Text that is not JSON fails with a [*TableError].
func OpenJSONL(path string) (*Table, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("data file: %w", err)
	}
	if !info.Mode().IsRegular() { // a pipe would be waited for
		return nil, &TableError{Path: path, Problem: fmt.Sprintf("not a regular file but %s; give a JSON Lines file", kindOf(info))}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data file: %w", err)
	}
	defer f.Close() // nothing was written to it
	return ReadJSONL(f, path)
}

func kindOf(info os.FileInfo) string {
	if info.IsDir() {
		return "a directory"
	}
	return "a device, pipe or socket"
}

// ReadJSONL is [OpenJSONL] for what r gives until its end; name stands for the
// file in messages.
func ReadJSONL(r io.Reader, name string) (*Table, error) {
	digest := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(r, digest), 1<<18)
	b := &builder{table: &Table{path: name, byName: map[string]*column{}}}
	var long []byte
	for number := 1; ; number++ {
		line, err := readLine(in, &long)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("data file %s: %w", name, err)
		}
		if problem := b.line(line, number); problem != nil {
			return nil, b.table.at(problem)
		}
		if err != nil {
			break
		}
	}
	b.table.digest = hex.EncodeToString(digest.Sum(nil))
	if b.table.rows == 0 {
		return nil, b.table.at(&TableError{Problem: "the file has no rows"})
	}
	for _, c := range b.table.columns {
		c.finish()
	}
	return b.table, nil
}

// readLine returns the next line, in the reader's buffer or, if it is longer, in
// long. It is valid until the next call. io.EOF comes with the last line.
func readLine(in *bufio.Reader, long *[]byte) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	*long = append((*long)[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = in.ReadSlice('\n')
		*long = append(*long, line...)
	}
	return *long, err
}

// builder takes the lines of a file in.
type builder struct {
	table *Table
	live  []*column // those without an error, present in every row so far
	first int       // the line of the first row
}

func (b *builder) line(text []byte, number int) *TableError {
	if number == 1 {
		text = bytes.TrimPrefix(text, []byte("\ufeff"))
		if problem := foreign(text); problem != "" {
			return &TableError{Problem: problem}
		}
	}
	s := &scanner{text: text}
	if s.peek(); s.at == len(text) {
		return nil
	}
	if !utf8.Valid(text) {
		return &TableError{Line: number, Problem: fmt.Sprintf("byte %d: not UTF-8 text: convert the file to UTF-8", firstInvalid(text)+1)}
	}
	if err := b.row(s, number); err != nil {
		return &TableError{Line: number, Problem: err.Error()}
	}
	return nil
}

// firstInvalid is the index of the first byte that is not UTF-8.
func firstInvalid(text []byte) int {
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// How files begin that are not JSON Lines.
var foreignFiles = []struct{ start, problem string }{
	{"version https://git-lfs", "a Git LFS pointer, not the data: fetch it with `git lfs pull`"},
	{"\x1f\x8b", "compressed with gzip: unpack it first"},
	{"\x28\xb5\x2f\xfd", "compressed with Zstandard: unpack it first"},
	{"PK\x03\x04", "a zip archive: unpack it first"},
	{"PAR1", "a Parquet file, expected JSON Lines"},
	{"\xff\xfe", "text in UTF-16, expected UTF-8"},
	{"\xfe\xff", "text in UTF-16, expected UTF-8"},
}

func foreign(text []byte) (problem string) {
	for _, f := range foreignFiles {
		if bytes.HasPrefix(text, []byte(f.start)) {
			return f.problem
		}
	}
	return ""
}

// row takes one object in.
func (b *builder) row(s *scanner, line int) error {
	if s.peek() != '{' {
		return fmt.Errorf("%s, expected an object: JSON Lines has one {…} on each line", s.kind())
	}
	if b.table.rows == 0 {
		b.first = line
	}
	err := s.members(func(key []byte) error { return b.value(s, key, line) })
	if err != nil {
		return err
	}
	if s.peek(); s.at < len(s.text) {
		return s.errorf("%q after the object: JSON Lines has one object on each line", s.text[s.at])
	}
	b.table.rows++
	b.dropMissing(line)
	return nil
}

// value takes the value of one key in.
func (b *builder) value(s *scanner, key []byte, line int) error {
	s.peek()
	c, ok := b.table.byName[string(key)]
	if !ok {
		var err error
		if c, err = b.newColumn(string(key)); err != nil {
			return err
		}
	}
	switch {
	case c.err != nil:
		return s.skip()
	case c.line == line:
		c.fail(line, "the key stands twice in one object")
		return s.skip()
	default:
		return c.read(s, line)
	}
}

func (b *builder) newColumn(name string) (*column, error) {
	t := b.table
	if len(t.columns) == maxColumns {
		return nil, fmt.Errorf("more than %d different keys in one file", maxColumns)
	}
	c := &column{name: name}
	if t.rows > 0 {
		c.fail(b.first, "the column is missing in this row")
	} else {
		b.live = append(b.live, c)
	}
	t.columns = append(t.columns, c)
	t.byName[name] = c
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
