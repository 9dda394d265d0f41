package pyjson

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep lists and dicts may nest: near Python's own recursion limit.
const maxDepth = 1000

// maxIntDigits is Python's limit on the digits of an int read from text.
const maxIntDigits = 4300

// SyntaxError tells where a text stops being JSON.
type SyntaxError struct {
	Line, Column int // both from 1; the column counts bytes
	Offset       int // in bytes, from 0
	Problem      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d column %d (byte %d): %s", e.Line, e.Column, e.Offset, e.Problem)
}

// Decode is json.loads of UTF-8 bytes. The last of equal keys wins, as in
// Python. The error is a *[SyntaxError].
func Decode(data []byte) (any, error) {
	d := decoder{data: data}
	return d.document()
}

type decoder struct {
	data []byte
	at   int
}

func (d *decoder) document() (any, error) {
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	d.space()
	if d.at < len(d.data) {
		return nil, d.fail("extra data after the end of the value")
	}
	return v, nil
}

func (d *decoder) fail(format string, args ...any) error {
	at := min(d.at, len(d.data))
	line, start := 1, 0
	for i, c := range d.data[:at] {
		if c == '\n' {
			line, start = line+1, i+1
		}
	}
	return &SyntaxError{Line: line, Column: at - start + 1, Offset: at, Problem: fmt.Sprintf(format, args...)}
}

func (d *decoder) space() {
	for d.at < len(d.data) {
		switch d.data[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

// peek is the next byte, or 0 at the end.
func (d *decoder) peek() byte {
	if d.at < len(d.data) {
		return d.data[d.at]
	}
	return 0
}

var literals = []struct {
	text  string
	value any
}{
	{"null", nil},
	{"true", true},
	{"false", false},
	{"NaN", nan},
	{"Infinity", inf},
	{"-Infinity", -inf},
}

func (d *decoder) value(depth int) (any, error) {
	d.space()
	if depth > maxDepth {
		return nil, d.fail("nested deeper than %d levels", maxDepth)
	}
	switch c := d.peek(); c {
	case '{':
		return d.dict(depth)
	case '[':
		return d.list(depth)
	case '"':
		return d.str()
	}
	for _, l := range literals {
		if d.take(l.text) {
			return l.value, nil
		}
	}
	if c := d.peek(); c == '-' || isDigit(c) {
		return d.number()
	}
	if d.at >= len(d.data) {
		return nil, d.fail("the text ends where a value should start")
	}
	return nil, d.fail("expected a value")
}

func (d *decoder) take(text string) bool {
	if len(d.data)-d.at < len(text) || string(d.data[d.at:d.at+len(text)]) != text {
		return false
	}
	d.at += len(text)
	return true
}

func (d *decoder) list(depth int) (any, error) {
	items := []any{}
	d.at++
	if d.space(); d.take("]") {
		return items, nil
	}
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
		done, err := d.next(']')
		if err != nil || done {
			return items, err
		}
	}
}

func (d *decoder) dict(depth int) (any, error) {
	items := map[string]any{}
	d.at++
	if d.space(); d.take("}") {
		return items, nil
	}
	for {
		if d.space(); d.peek() != '"' {
			return nil, d.fail("expected a key in double quotes")
		}
		key, err := d.str()
		if err != nil {
			return nil, err
		}
		if d.space(); !d.take(":") {
			return nil, d.fail("expected ':' after the key %q", key)
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items[key] = v
		done, err := d.next('}')
		if err != nil || done {
			return items, err
		}
	}
}

// next passes the comma before another item, or the end of the container.
func (d *decoder) next(end byte) (done bool, err error) {
	d.space()
	switch c := d.peek(); {
	case d.at >= len(d.data):
		return false, d.fail("the text ends inside a list or a dict: the file is cut")
	case c == end:
		d.at++
		return true, nil
	case c == ',':
		d.at++
		return false, nil
	}
	return false, d.fail("expected ',' or '%c'", end)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// number is -?(0|[1-9][0-9]*) and an optional fraction and exponent; with
// either it is a float, without an int.
func (d *decoder) number() (any, error) {
	start := d.at
	d.take("-")
	switch c := d.peek(); {
	case c == '0':
		d.at++
	case isDigit(c):
		d.digits()
	default:
		return nil, d.fail("expected a digit")
	}
	intEnd := d.at
	if d.peek() == '.' {
		d.at++
		if d.digits() == 0 {
			d.at = intEnd
		}
	}
	if fraction := d.at; d.peek() == 'e' || d.peek() == 'E' {
		d.at++
		if c := d.peek(); c == '+' || c == '-' {
			d.at++
		}
		if d.digits() == 0 {
			d.at = fraction
		}
	}
	text := string(d.data[start:d.at])
	if d.at > intEnd {
		f, _ := strconv.ParseFloat(text, 64) // out of range is ±Inf, as in Python
		return f, nil
	}
	return d.integer(text, start)
}

func (d *decoder) digits() int {
	start := d.at
	for isDigit(d.peek()) {
		d.at++
	}
	return d.at - start
}

func (d *decoder) integer(text string, start int) (any, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if n := len(strings.TrimPrefix(text, "-")); n > maxIntDigits {
		d.at = start
		return nil, d.fail("an int of %d digits is over the limit of %d", n, maxIntDigits)
	}
	i, _ := new(big.Int).SetString(text, 10) // text is digits by now
	return i, nil
}

func (d *decoder) str() (string, error) {
	d.at++
	out := []byte{}
	for {
		start := d.at
		for d.at < len(d.data) && d.data[d.at] >= ' ' && d.data[d.at] != '"' && d.data[d.at] != '\\' {
			d.at++
		}
		if run := d.data[start:d.at]; !utf8.Valid(run) {
			d.at = start
			return "", d.fail("text is not UTF-8")
		}
		out = append(out, d.data[start:d.at]...)
		switch {
		case d.at >= len(d.data):
			return "", d.fail("the text ends inside a string: the file is cut")
		case d.take(`"`):
			return string(out), nil
		case d.peek() != '\\':
			return "", d.fail("control character 0x%02x inside a string", d.peek())
		}
		var err error
		if out, err = d.escape(out); err != nil {
			return "", err
		}
	}
}

var escapes = map[byte]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

func (d *decoder) escape(out []byte) ([]byte, error) {
	d.at++
	c := d.peek()
	if to, ok := escapes[c]; ok {
		d.at++
		return append(out, to), nil
	}
	if c != 'u' {
		return nil, d.fail("unknown escape in a string")
	}
	d.at++
	r, ok := d.hex4()
	if !ok {
		return nil, d.fail(`expected four hexadecimal digits after \u`)
	}
	if r>>10 == 0xd800>>10 {
		before := d.at
		if d.take(`\u`) {
			if low, ok := d.hex4(); ok && low>>10 == 0xdc00>>10 {
				return utf8.AppendRune(out, 0x10000+(r&0x3ff)<<10|low&0x3ff), nil
			}
		}
		d.at = before
	}
	return appendWTF8(out, r), nil
}

func (d *decoder) hex4() (rune, bool) {
	if len(d.data)-d.at < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(d.data[d.at:d.at+4]), 16, 16)
	if err != nil {
		return 0, false
	}
	d.at += 4
	return rune(n), true
}

// appendWTF8 appends r, a lone surrogate as three bytes.
func appendWTF8(out []byte, r rune) []byte {
	if r>>11 == 0xd800>>11 {
		return append(out, 0xed, byte(0x80|r>>6&0x3f), byte(0x80|r&0x3f))
	}
	return utf8.AppendRune(out, r)
}
