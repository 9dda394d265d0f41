package pickle

import (
	"fmt"
	"unicode/utf8"

	"rejoin/pyobj"
)

var dictClasses = map[pyobj.Global]pyobj.Kind{
	{Module: "collections", Name: "OrderedDict"}: pyobj.OrderedDict,
	{Module: "collections", Name: "Counter"}:     pyobj.Counter,
	{Module: "collections", Name: "defaultdict"}: pyobj.DefaultDict,
	{Module: "builtins", Name: "dict"}:           pyobj.PlainDict,
	{Module: "__builtin__", Name: "dict"}:        pyobj.PlainDict,
}

var setClasses = map[pyobj.Global]bool{
	{Module: "builtins", Name: "set"}:          true,
	{Module: "__builtin__", Name: "set"}:       true,
	{Module: "builtins", Name: "frozenset"}:    true,
	{Module: "__builtin__", Name: "frozenset"}: true,
}

// knownGlobals are Python's and numpy's classes that are plain data.
var knownGlobals = map[pyobj.Global]bool{
	encodeFunc:   true,
	numpyNDArray: true,
	numpyDtype:   true,
}

var (
	encodeFunc   = pyobj.Global{Module: "_codecs", Name: "encode"}
	numpyNDArray = pyobj.Global{Module: "numpy", Name: "ndarray"}
	numpyDtype   = pyobj.Global{Module: "numpy", Name: "dtype"}
)

func init() {
	for g := range dictClasses {
		knownGlobals[g] = true
	}
	for g := range setClasses {
		knownGlobals[g] = true
	}
	for _, name := range []string{"int", "long", "float", "bool", "str", "unicode", "bytes", "bytearray", "complex", "list", "tuple", "object"} {
		knownGlobals[pyobj.Global{Module: "builtins", Name: name}] = true
		knownGlobals[pyobj.Global{Module: "__builtin__", Name: name}] = true
	}
	for _, module := range numpyModules {
		knownGlobals[pyobj.Global{Module: module, Name: "_reconstruct"}] = true
		knownGlobals[pyobj.Global{Module: module, Name: "scalar"}] = true
	}
}

// builtin builds the values that Python writes as calls of its own types.
func (c *converter) builtin(call *Call) (any, bool, error) {
	if call.Func == encodeFunc {
		value, err := c.encode(call.Args)
		return value, true, err
	}
	if call.Func.Module != "__builtin__" && call.Func.Module != "builtins" {
		return nil, false, nil
	}
	switch call.Func.Name {
	case "bytearray":
		value, err := c.byteArray(call.Args)
		return value, true, err
	case "bytes":
		if len(call.Args) != 0 {
			return nil, true, fmt.Errorf("bytes is called with %d arguments, expected none", len(call.Args))
		}
		return pyobj.Bytes(""), true, nil
	case "complex":
		value, err := complexNumber(call.Args)
		return value, true, err
	}
	return nil, false, nil
}

// encode is how protocol 2 writes bytes: as text, one character per byte.
func (c *converter) encode(args []any) (any, error) {
	if len(args) < 1 || len(args) > 2 {
		return nil, fmt.Errorf("_codecs.encode is called with %d arguments, expected 2", len(args))
	}
	text, ok := args[0].(string)
	if !ok {
		return nil, fmt.Errorf("_codecs.encode is called with %s, expected a str", pyobj.TypeName(args[0]))
	}
	if len(args) == 2 && args[1] != any("latin1") && args[1] != any("latin-1") {
		return nil, fmt.Errorf("_codecs.encode is called with the encoding %v, expected latin1", args[1])
	}
	if err := c.charge(len(text)); err != nil {
		return nil, err
	}
	return latin1(text)
}

// latin1 turns text into one byte per character.
func latin1(text string) (pyobj.Bytes, error) {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff || r == utf8.RuneError {
			return "", fmt.Errorf("text that should be latin1 holds the character %U", r)
		}
		out = append(out, byte(r))
	}
	return pyobj.Bytes(out), nil
}

func (c *converter) byteArray(args []any) (any, error) {
	switch {
	case len(args) == 0:
		return &pyobj.ByteArray{}, nil
	case len(args) == 2:
		b, err := c.encode(args)
		if err != nil {
			return nil, err
		}
		return &pyobj.ByteArray{Data: []byte(b.(pyobj.Bytes))}, nil
	}
	b, ok := args[0].(pyobj.Bytes)
	if !ok {
		return nil, fmt.Errorf("a bytearray is made of %s, expected bytes", pyobj.TypeName(args[0]))
	}
	return &pyobj.ByteArray{Data: []byte(b)}, c.charge(len(b))
}

func complexNumber(args []any) (any, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("complex is called with %d arguments, expected 2", len(args))
	}
	re, err := pyobj.AsFloat(args[0])
	if err != nil {
		return nil, err
	}
	im, err := pyobj.AsFloat(args[1])
	return complex(re, im), err
}
