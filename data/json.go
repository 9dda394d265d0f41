package data

import (
	"encoding/json"
	"fmt"
)

// scanner reads the JSON text of one line, without building values. Like Python's
// json it also takes NaN, Infinity and -Infinity as numbers. Unlike it, it does not
// look into the bytes of strings.
type scanner struct {
	text []byte
	at   int
}

// How deep a value that is only passed over may be nested, as in encoding/json.
const maxDepth = 10_000

func (s *scanner) errorf(format string, args ...any) error {
	return fmt.Errorf("byte %d: %s", s.at+1, fmt.Sprintf(format, args...))
}

// peek skips white space and returns the next byte, 0 at the end of the line.
func (s *scanner) peek() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// unexpected says what stands where something else was expected.
func (s *scanner) unexpected(expected string) error {
	if s.peek() == 0 && s.at == len(s.text) {
		return s.errorf("the line ends where %s was expected: the file may be cut", expected)
	}
	return s.errorf("%q where %s was expected", s.text[s.at], expected)
}

// take consumes c, or fails.
func (s *scanner) take(c byte) error {
	if s.peek() != c {
		return s.unexpected(fmt.Sprintf("%q", c))
	}
	s.at++
	return nil
}

// members consumes an object and calls f at each value, which f must consume.
// key is valid until f returns.
func (s *scanner) members(f func(key []byte) error) error {
	if err := s.take('{'); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.at++
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.unexpected("a key in quotes")
		}
		key, err := s.key()
		if err != nil {
			return err
		}
		if err := s.take(':'); err != nil {
			return err
		}
		if err := f(key); err != nil {
			return err
		}
		if more, err := s.separator('}'); !more {
			return err
		}
	}
}

// separator consumes a comma and returns true, or the end byte and returns false.
func (s *scanner) separator(end byte) (more bool, err error) {
	switch s.peek() {
	case ',':
		s.at++
		return true, nil
	case end:
		s.at++
		return false, nil
	default:
		return false, s.unexpected(fmt.Sprintf("a comma or %q", end))
	}
}

// key consumes a string and returns its value.
func (s *scanner) key() ([]byte, error) {
	from := s.at
	escaped, err := s.str()
	if err != nil {
		return nil, err
	}
	raw := s.text[from:s.at]
	if !escaped {
		return raw[1 : len(raw)-1], nil
	}
	var key string
	if err := json.Unmarshal(raw, &key); err != nil {
		return nil, s.errorf("a key is not a JSON string: %v", err)
	}
	return []byte(key), nil
}

// str consumes a string and reports whether it has escapes.
func (s *scanner) str() (escaped bool, err error) {
	s.at++ // the opening quote
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return escaped, err
			}
		case c < ' ':
			return escaped, s.errorf("a control character (%#02x) inside a string", c)
		}
	}
	return escaped, s.errorf("the line ends inside a string: the file may be cut")
}

// escape goes to the last byte of an escape sequence.
func (s *scanner) escape() error {
	s.at++
	if s.at == len(s.text) {
		return s.errorf("the line ends inside a string: the file may be cut")
	}
	switch s.text[s.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			s.at++
			if s.at == len(s.text) || !isHex(s.text[s.at]) {
				return s.errorf("\\u is not followed by four hexadecimal digits")
			}
		}
		return nil
	default:
		return s.errorf("\\%c is not an escape of JSON", s.text[s.at])
	}
}

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// number consumes a number and returns its text, nil if none starts here.
// integer means that it has neither fraction nor exponent.
func (s *scanner) number() (text []byte, integer bool, err error) {
	from := s.at
	if s.word("NaN") || s.word("Infinity") || s.word("-Infinity") {
		return s.text[from:s.at], false, nil
	}
	if c := s.next(); c != '-' && !isDigit(c) {
		return nil, false, nil
	} else if c == '-' {
		s.at++
	}
	if s.next() == '0' {
		s.at++
		if isDigit(s.next()) {
			return nil, false, s.errorf("a number starts with 0")
		}
	} else if s.digits() == 0 {
		return nil, false, s.unexpected("a digit")
	}
	integer = true
	if s.next() == '.' {
		s.at++
		if integer = false; s.digits() == 0 {
			return nil, false, s.unexpected("a digit after the point")
		}
	}
	if s.next()|0x20 == 'e' {
		s.at++
		if c := s.next(); c == '+' || c == '-' {
			s.at++
		}
		if integer = false; s.digits() == 0 {
			return nil, false, s.unexpected("a digit of the exponent")
		}
	}
	return s.text[from:s.at], integer, nil
}

// next is the byte here, 0 at the end; it skips nothing.
func (s *scanner) next() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) digits() (n int) {
	for ; isDigit(s.next()); s.at++ {
		n++
	}
	return n
}

// word consumes w if it stands here.
func (s *scanner) word(w string) bool {
	if len(s.text)-s.at < len(w) || string(s.text[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// skip consumes any value. It keeps the open brackets on a stack of its own, so a
// deeply nested line cannot exhaust the goroutine's.
func (s *scanner) skip() error {
	var open []byte
	for {
		closed, err := s.skipStart(&open)
		if err != nil {
			return err
		}
		// After a whole value: close what ends here, until another value must follow.
		for closed {
			if len(open) == 0 {
				return nil
			}
			end := open[len(open)-1]
			more, err := s.separator(end)
			if err != nil {
				return err
			}
			if !more {
				open = open[:len(open)-1]
				continue
			}
			if end == '}' {
				if err := s.skipKey(); err != nil {
					return err
				}
			}
			closed = false
		}
	}
}

// skipStart consumes a scalar or an empty list or object (closed), or the start of
// one with members, up to its first value.
func (s *scanner) skipStart(open *[]byte) (closed bool, err error) {
	var end byte
	switch s.peek() {
	case '{':
		end = '}'
	case '[':
		end = ']'
	default:
		return true, s.scalar()
	}
	s.at++
	if s.peek() == end {
		s.at++
		return true, nil
	}
	if len(*open) == maxDepth {
		return false, s.errorf("nested deeper than %d", maxDepth)
	}
	*open = append(*open, end)
	if end == '}' {
		return false, s.skipKey()
	}
	return false, nil
}

func (s *scanner) skipKey() error {
	if s.peek() != '"' {
		return s.unexpected("a key in quotes")
	}
	if _, err := s.str(); err != nil {
		return err
	}
	return s.take(':')
}

func (s *scanner) scalar() error {
	if s.next() == '"' {
		_, err := s.str()
		return err
	}
	if s.word("true") || s.word("false") || s.word("null") {
		return nil
	}
	if text, _, err := s.number(); text != nil || err != nil {
		return err
	}
	return s.unexpected("a value")
}

// kind names the value that starts here, for a message.
func (s *scanner) kind() string {
	switch s.peek() {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	if c := s.next(); isDigit(c) || c == '-' || c == 'N' || c == 'I' {
		return "a number"
	}
	return "text that is not JSON"
}
