package npy

import (
	"fmt"
	"strconv"
	"strings"
)

// tuple is a Python tuple; lists are []any, dicts map[string]any, the rest string,
// int64, bool and nil.
type tuple []any

// How deep a header's value may be nested; numpy's own are 5 deep at most for
// plain fields.
const maxDepth = 32

// literal parses a Python literal of the kinds that a header is made of.
type literal struct {
	text string
	at   int
}

func (l *literal) errorf(format string, args ...any) error {
	return fmt.Errorf("header byte %d: %s", l.at+1, fmt.Sprintf(format, args...))
}

func (l *literal) peek() byte {
	for l.at < len(l.text) && strings.IndexByte(" \t\n\r", l.text[l.at]) >= 0 {
		l.at++
	}
	if l.at == len(l.text) {
		return 0
	}
	return l.text[l.at]
}

func (l *literal) value(depth int) (any, error) {
	switch c := l.peek(); {
	case depth > maxDepth:
		return nil, l.errorf("nested deeper than %d", maxDepth)
	case c == '\'' || c == '"':
		return l.str(c)
	case c == '-' || '0' <= c && c <= '9':
		return l.integer()
	case c == '[':
		items, _, err := l.items(']', depth)
		return items, err
	case c == '(':
		items, comma, err := l.items(')', depth)
		if err == nil && len(items) == 1 && !comma {
			return items[0], nil
		}
		return tuple(items), err
	case c == '{':
		return l.dict(depth)
	}
	for word, v := range map[string]any{"True": true, "False": false, "None": nil} {
		if strings.HasPrefix(l.text[l.at:], word) {
			l.at += len(word)
			return v, nil
		}
	}
	return nil, l.errorf("expected a value of Python")
}

func (l *literal) str(quote byte) (string, error) {
	l.at++
	end := strings.IndexByte(l.text[l.at:], quote)
	if end < 0 {
		return "", l.errorf("a string without an end")
	}
	s := l.text[l.at : l.at+end]
	l.at += end + 1
	if strings.IndexByte(s, '\\') >= 0 {
		return "", l.errorf("an escape in the string %q", s)
	}
	return s, nil
}

func (l *literal) integer() (int64, error) {
	from := l.at
	for l.at++; l.at < len(l.text) && '0' <= l.text[l.at] && l.text[l.at] <= '9'; l.at++ {
	}
	v, err := strconv.ParseInt(l.text[from:l.at], 10, 64)
	if err != nil {
		return 0, l.errorf("%q is no 64-bit integer", l.text[from:l.at])
	}
	if l.at < len(l.text) && l.text[l.at] == 'L' { // Python 2 wrote longs so
		l.at++
	}
	return v, nil
}

// items parses a list or tuple; comma tells whether a comma stood at the end.
func (l *literal) items(end byte, depth int) (items []any, comma bool, err error) {
	for l.at++; l.peek() != end; {
		if len(items) > 0 && !comma {
			return nil, false, l.errorf("expected a comma or %q", end)
		}
		v, err := l.value(depth + 1)
		if err != nil {
			return nil, false, err
		}
		items = append(items, v)
		if comma = l.peek() == ','; comma {
			l.at++
		}
	}
	l.at++
	return items, comma, nil
}

func (l *literal) dict(depth int) (map[string]any, error) {
	out := map[string]any{}
	comma := true
	for l.at++; l.peek() != '}'; {
		if !comma {
			return nil, l.errorf("expected a comma or '}'")
		}
		key, err := l.value(depth + 1)
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok || l.peek() != ':' {
			return nil, l.errorf("expected a key in quotes and a colon")
		}
		l.at++
		if out[name], err = l.value(depth + 1); err != nil {
			return nil, err
		}
		if comma = l.peek() == ','; comma {
			l.at++
		}
	}
	l.at++
	return out, nil
}
