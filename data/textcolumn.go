package data

import (
	"fmt"
	"slices"
	"strconv"
)

// How deep the lists of a number column may be nested.
const maxRank = 8

// textColumn is one column of a text file while it is read. It starts with integers
// and turns to floats at the first number that is not one.
//
// Its invariants, while err is nil:
//
//  1. Every row so far has the shape shape; it is nil before the first row.
//  2. Either ints or floats holds rows × the product of shape elements.
type textColumn struct {
	name  string
	shape []int
	line  int // of the last row read

	ints    []int64
	floats  []float32
	isFloat bool

	firstRow   int        // the line of the first row
	firstFloat int        // the line of the first number that is no integer; 0: none yet
	firstWide  *wideValue // the first integer over 64 bits
	err        *TableError
}

type wideValue struct {
	line int
	text string
}

// fail drops the column's values; line is where the problem is, 0 if in no line.
func (c *textColumn) fail(line int, format string, args ...any) {
	c.err = &TableError{Line: line, Column: c.name, Problem: fmt.Sprintf(format, args...)}
	c.ints, c.floats = nil, nil
}

// read consumes the value of one row. It returns an error for text that is not
// JSON; a value that is not numbers of the column's shape fails the column only.
func (c *textColumn) read(s *scanner, line int) error {
	from := s.at
	shape, problem, err := c.readShape(s, line)
	switch {
	case err != nil:
		return err
	case problem != "":
	case c.shape == nil:
		c.shape, c.firstRow = shape, line
	case !slices.Equal(shape, c.shape):
		problem = fmt.Sprintf("%s, expected %s as on line %d", describeShape(shape), describeShape(c.shape), c.firstRow)
	}
	c.line = line
	if problem == "" {
		return nil
	}
	c.fail(line, "%s", problem)
	s.at = from
	return s.skip()
}

func describeShape(shape []int) string {
	if len(shape) == 0 {
		return "a number"
	}
	return fmt.Sprintf("a list of shape %v", shape)
}

// walk is one row's value as far as it was read.
type walk struct {
	sizes [maxRank]int // of the lists at each depth; -1 until one was closed
	rank  int          // the depth at which numbers stand; -1 until one was read
}

// readShape appends the numbers of a value to the column and returns its shape,
// or a problem.
func (c *textColumn) readShape(s *scanner, line int) (shape []int, problem string, err error) {
	w := walk{rank: -1}
	for i := range w.sizes {
		w.sizes[i] = -1
	}
	problem, err = c.readValue(s, &w, 0, line)
	if problem != "" || err != nil {
		return nil, problem, err
	}
	if w.rank < 0 {
		return nil, "an empty list, expected numbers", nil
	}
	// Never nil, which means that no row was read yet.
	return append(make([]int, 0, w.rank), w.sizes[:w.rank]...), "", nil
}

func (c *textColumn) readValue(s *scanner, w *walk, depth, line int) (problem string, err error) {
	if s.peek() == '[' {
		return c.readList(s, w, depth, line)
	}
	text, integer, err := s.number()
	switch {
	case err != nil:
		return "", err
	case text == nil:
		return s.kind() + ", expected a number or a list of numbers", nil
	case w.rank >= 0 && w.rank != depth:
		return "numbers and lists side by side in one list", nil
	}
	w.rank = depth
	c.append(text, integer, line)
	return "", nil
}

func (c *textColumn) readList(s *scanner, w *walk, depth, line int) (problem string, err error) {
	switch {
	case w.rank >= 0 && depth >= w.rank:
		return "numbers and lists side by side in one list", nil
	case depth == maxRank:
		return fmt.Sprintf("lists nested deeper than %d", maxRank), nil
	}
	s.at++
	n := 0
	if s.peek() == ']' {
		s.at++
	} else {
		for more := true; more; n++ {
			if problem, err = c.readValue(s, w, depth+1, line); problem != "" || err != nil {
				return problem, err
			}
			if more, err = s.separator(']'); err != nil {
				return "", err
			}
		}
	}
	if old := w.sizes[depth]; old >= 0 && old != n {
		return fmt.Sprintf("lists of %d and of %d elements side by side", old, n), nil
	}
	w.sizes[depth] = n
	return "", nil
}

// append adds one number, read as Python reads it.
func (c *textColumn) append(text []byte, integer bool, line int) {
	if integer && !c.isFloat {
		v, err := strconv.ParseInt(string(text), 10, 64)
		if err == nil {
			c.ints = append(c.ints, v)
			return
		}
	}
	if integer && c.firstWide == nil {
		if _, err := strconv.ParseInt(string(text), 10, 64); err != nil {
			c.firstWide = &wideValue{line, string(text)}
		}
	}
	if !integer && c.firstFloat == 0 {
		c.firstFloat = line
	}
	c.toFloat()
	// Out of range is infinite, as in Python; the text is a number by now.
	v, _ := strconv.ParseFloat(string(text), 64)
	if integer && v == 0 {
		v = 0 // -0 is the integer 0
	}
	c.floats = append(c.floats, float32(v))
}

// toFloat turns the integers so far to floats.
func (c *textColumn) toFloat() {
	if c.isFloat {
		return
	}
	c.isFloat = true
	c.floats = make([]float32, len(c.ints), max(cap(c.ints), 1))
	for i, v := range c.ints {
		c.floats[i] = float32(float64(v))
	}
	c.ints = nil
}

// finish returns the column after the last row.
func (c *textColumn) finish() *column {
	if c.err == nil && c.firstFloat == 0 && c.firstWide != nil {
		c.fail(c.firstWide.line, "the integer %.40s does not fit in 64 bits", c.firstWide.text)
	}
	if c.err != nil {
		return failed(c.name, c.err)
	}
	return loaded(c.name, &numbers{
		rowShape: c.shape, size: elements(c.shape),
		ints: slices.Clip(c.ints), floats: slices.Clip(c.floats), isFloat: c.isFloat, firstFloat: c.firstFloat,
	})
}
