package tree

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// TypeName is what Python, or JSON, calls the type of a leaf's value.
func TypeName(v any) string {
	switch v := v.(type) {
	case *Opaque:
		return v.Class.String()
	case Recursive:
		return v.Type
	case map[string]any:
		return "dict"
	case []any:
		return "list"
	}
	return pyobj.TypeName(v)
}

// reprDepth and reprItems bound what Repr writes of containers, reprText of texts.
const (
	reprDepth = 4
	reprItems = 8
	reprText  = 200
)

// Repr writes a value as Python's repr does, shortened where it is long; a class
// by its name, and an object as the call that would have made it.
func Repr(v any) string { return repr(v, reprDepth) }

func repr(v any, depth int) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case float64:
		return reprFloat(v)
	case complex128:
		return fmt.Sprintf("(%s%sj)", trimZero(real(v)), signed(trimZero(imag(v))))
	case string:
		return quote(v, "")
	case pyobj.Bytes:
		return quoteBytes(string(v))
	case *pyobj.ByteArray:
		return "bytearray(" + quoteBytes(string(v.Data)) + ")"
	case pyobj.Global:
		return "<class " + v.String() + ">"
	case pyobj.Device:
		return fmt.Sprintf("device(%s)", quote(string(v), ""))
	case tensor.DType:
		return "torch." + v.String()
	case pyobj.Size:
		return "torch.Size(" + strings.ReplaceAll(fmt.Sprint([]int(v)), " ", ", ") + ")"
	case *pyobj.NumpyScalar:
		return reprScalar(v)
	case *pyobj.NDArray:
		return fmt.Sprintf("array(shape=%v, dtype=%s)", v.Shape, v.Dtype)
	case *tensor.Tensor:
		return "tensor(" + v.String() + ")"
	case *pyobj.TypedStorage:
		return fmt.Sprintf("%v(%d)", v.Class, v.NumElements)
	case *Opaque:
		return "<" + v.Class.String() + ">"
	case Recursive:
		return "<" + v.Type + " that contains itself>"
	}
	return reprContainer(v, depth)
}

func reprContainer(v any, depth int) string {
	switch v := v.(type) {
	case *pyobj.List:
		return "[" + reprList(v.Items, depth) + "]"
	case []any:
		return "[" + reprList(v, depth) + "]"
	case *pyobj.Tuple:
		if len(v.Items) == 1 {
			return "(" + reprList(v.Items, depth) + ",)"
		}
		return "(" + reprList(v.Items, depth) + ")"
	case *pyobj.Set:
		if len(v.Items) == 0 {
			return "set()"
		}
		return "{" + reprList(v.Items, depth) + "}"
	case *pyobj.Dict:
		if v.Len() == 0 {
			return "{}"
		}
		return fmt.Sprintf("{… %d items}", v.Len())
	case map[string]any:
		if len(v) == 0 {
			return "{}"
		}
		return fmt.Sprintf("{… %d items}", len(v))
	case *pyobj.Object:
		var args []any
		if v.Args != nil {
			args = v.Args.Items
		}
		return "<" + v.Class.String() + "(" + reprList(args, depth) + ")>"
	}
	return fmt.Sprint(v)
}

func reprList(items []any, depth int) string {
	if depth <= 0 && len(items) > 0 {
		return "…"
	}
	var parts []string
	for i, item := range items {
		if i == reprItems && len(items) > reprItems+1 {
			parts = append(parts, fmt.Sprintf("… %d more", len(items)-i))
			break
		}
		parts = append(parts, repr(item, depth-1))
	}
	return strings.Join(parts, ", ")
}

// reprFloat is float.__repr__: the shortest digits that read back.
func reprFloat(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+"))
	case a != 0 && (a < 1e-4 || a >= 1e16):
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func trimZero(v float64) string { return strings.TrimSuffix(reprFloat(v), ".0") }

func signed(s string) string {
	if strings.HasPrefix(s, "-") {
		return s
	}
	return "+" + s
}

func quote(s, prefix string) string {
	if len(s) > reprText {
		return prefix + quote(s[:reprText], "") + fmt.Sprintf("… (%d bytes)", len(s))
	}
	q := strconv.Quote(s)
	if !strings.Contains(s, "'") {
		q = "'" + strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`) + "'"
	}
	return prefix + q
}

func quoteBytes(s string) string {
	var b strings.Builder
	for i := range min(len(s), reprText) {
		switch c := s[i]; {
		case c == '\\' || c == '\'':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c >= 0x20 && c < 0x7f:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	out := "b'" + b.String() + "'"
	if len(s) > reprText {
		out += fmt.Sprintf("… (%d bytes)", len(s))
	}
	return out
}

func reprScalar(s *pyobj.NumpyScalar) string {
	names := map[byte]string{'f': "float", 'i': "int", 'u': "uint"}
	f, err := s.Float()
	if err != nil || len(s.Dtype) < 2 {
		return fmt.Sprintf("np.%s(%d bytes)", s.Dtype, len(s.Data))
	}
	value := reprFloat(f)
	if s.Dtype[0] != 'f' {
		value = strings.TrimSuffix(value, ".0")
	}
	return fmt.Sprintf("np.%s%d(%s)", names[s.Dtype[0]], 8*len(s.Data), value)
}
