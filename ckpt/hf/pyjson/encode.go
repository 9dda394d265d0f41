package pyjson

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Encode is json.dumps(v, indent=2, sort_keys=True).
// A value of a type that the package's mapping does not have is an error that
// names where it stands.
func Encode(v any) ([]byte, error) {
	e := encoder{}
	if err := e.value(v, 0); err != nil {
		return nil, err
	}
	return e.out, nil
}

type encoder struct{ out []byte }

func (e *encoder) value(v any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		e.out = append(e.out, "null"...)
	case bool:
		e.out = strconv.AppendBool(e.out, v)
	case int:
		e.out = strconv.AppendInt(e.out, int64(v), 10)
	case int64:
		e.out = strconv.AppendInt(e.out, v, 10)
	case *big.Int:
		e.out = v.Append(e.out, 10)
	case float64:
		e.out = append(e.out, floatLiteral(v)...)
	case string:
		return e.str(v)
	case []any:
		return e.list(v, depth)
	case map[string]any:
		return e.dict(v, depth)
	default:
		return fmt.Errorf("a value of type %T has no JSON form", v)
	}
	return nil
}

func (e *encoder) list(items []any, depth int) error {
	if len(items) == 0 {
		e.out = append(e.out, "[]"...)
		return nil
	}
	e.out = append(e.out, '[')
	for i, item := range items {
		e.separate(i, depth+1)
		if err := e.value(item, depth+1); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	e.newline(depth)
	e.out = append(e.out, ']')
	return nil
}

// dict sorts by bytes, which is the order of code points, as Python orders str.
func (e *encoder) dict(items map[string]any, depth int) error {
	if len(items) == 0 {
		e.out = append(e.out, "{}"...)
		return nil
	}
	e.out = append(e.out, '{')
	for i, key := range slices.Sorted(maps.Keys(items)) {
		e.separate(i, depth+1)
		if err := e.str(key); err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		e.out = append(e.out, ": "...)
		if err := e.value(items[key], depth+1); err != nil {
			return fmt.Errorf("[%q]: %w", key, err)
		}
	}
	e.newline(depth)
	e.out = append(e.out, '}')
	return nil
}

func (e *encoder) separate(index, depth int) {
	if index > 0 {
		e.out = append(e.out, ',')
	}
	e.newline(depth)
}

func (e *encoder) newline(depth int) {
	e.out = append(e.out, '\n')
	for range depth {
		e.out = append(e.out, "  "...)
	}
}

// floatLiteral is float.__repr__, and json's names for what is not finite.
func floatLiteral(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return FloatRepr(f)
}

// FloatRepr is Python's repr of f: the shortest digits that read back as f,
// with an exponent below 1e-4 and from 1e16 on; "nan", "inf" and "-inf".
func FloatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	case f != 0 && (math.Abs(f) < 1e-4 || math.Abs(f) >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

const hexDigits = "0123456789abcdef"

// str writes s with ensure_ascii=True.
func (e *encoder) str(s string) error {
	e.out = append(e.out, '"')
	for at := 0; at < len(s); {
		r, size := decodeRune(s[at:])
		if r == utf8.RuneError && size == 1 {
			return fmt.Errorf("text is not UTF-8 at byte %d", at)
		}
		at += size
		e.out = appendEscaped(e.out, r)
	}
	e.out = append(e.out, '"')
	return nil
}

func appendEscaped(out []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(out, '\\', byte(r))
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	case '\f':
		return append(out, `\f`...)
	case '\b':
		return append(out, `\b`...)
	}
	if r >= ' ' && r <= '~' {
		return append(out, byte(r))
	}
	if r >= 0x10000 {
		r -= 0x10000
		return appendHex(appendHex(out, 0xd800+r>>10), 0xdc00+r&0x3ff)
	}
	return appendHex(out, r)
}

func appendHex(out []byte, r rune) []byte {
	return append(out, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// decodeRune is utf8.DecodeRuneInString that also knows a lone surrogate.
func decodeRune(s string) (rune, int) {
	r, size := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && size == 1 && isSurrogate(s) {
		return rune(s[0]&0x0f)<<12 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), 3
	}
	return r, size
}

func isSurrogate(s string) bool {
	return len(s) >= 3 && s[0] == 0xed && s[1]&0xe0 == 0xa0 && s[2]&0xc0 == 0x80
}
