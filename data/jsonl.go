package data

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// OpenJSONL reads a JSON Lines file: one object a line, each key a column. Blank
// lines are passed over; the text must be UTF-8. A column may hold numbers or equally nested, equally long
// lists of numbers; what else it holds is an error only once it is asked for.
// Text that is not JSON fails with a [*TableError].
func OpenJSONL(path string) (*Table, error) {
	f, _, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written to it
	return ReadJSONL(f, path)
}

// ReadJSONL is [OpenJSONL] for what r gives until its end; name stands for the
// file in messages.
func ReadJSONL(r io.Reader, name string) (*Table, error) {
	digest := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(r, digest), 1<<18)
	b := newBuilder(name)
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
	return b.finish(digest)
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

func (b *builder) line(text []byte, number int) *TableError {
	if number == 1 {
		text = bytes.TrimPrefix(text, []byte("\ufeff"))
		if problem := binaryFormat(text); problem != "" {
			return &TableError{Problem: problem + "; expected JSON Lines"}
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

// row takes one object in.
func (b *builder) row(s *scanner, line int) error {
	if s.peek() != '{' {
		return fmt.Errorf("%s, expected an object: JSON Lines has one {…} on each line", s.kind())
	}
	if b.rows == 0 {
		b.first = line
	}
	err := s.members(func(key []byte) error { return b.value(s, key, line) })
	if err != nil {
		return err
	}
	if s.peek(); s.at < len(s.text) {
		return s.errorf("%q after the object: JSON Lines has one object on each line", s.text[s.at])
	}
	b.rows++
	b.dropMissing(line)
	return nil
}

// value takes the value of one key in.
func (b *builder) value(s *scanner, key []byte, line int) error {
	s.peek()
	c, ok := b.byName[string(key)]
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
