package pickle

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// batchSize is how many items one SETITEMS or APPENDS takes, as in CPython.
const batchSize = 1000

// Reduction is what Python's __reduce__ returns: how an object is made.
type Reduction struct {
	Func     pyobj.Global
	New      bool // by Func.__new__ (NEWOBJ), not by a call
	Args     *pyobj.Tuple
	Items    []any
	Pairs    []pyobj.Entry
	State    any
	HasState bool
}

// DumpOptions connect the pickler to the caller's types.
type DumpOptions struct {
	// Reduce says how to make v, of a type that package pyobj leaves to the
	// caller; nil if it does not know it.
	Reduce func(v any) (*Reduction, error)
	// Persistent returns the persistent id under which v is kept outside of
	// the pickle; nil if v is an ordinary value.
	Persistent func(v any) (*pyobj.Tuple, error)
}

// Text is a str that Python makes at run time: another object than an equal
// string of the program. Texts with equal IDs are one object; one without an ID
// is an object of its own.
type Text struct {
	Text string
	ID   any
}

// freshBytes is bytes that are an object of their own.
type freshBytes string

// numpyType is a numpy dtype, of which Python has one object per type.
type numpyType struct {
	code      string
	bigEndian bool
}

type pickler struct {
	o     DumpOptions
	out   []byte
	memo  map[any]uint32 // by pointer, or by value for what Python interns
	next  uint32
	depth int
}

// Dump writes obj as a pickle of protocol 2, as CPython's C pickler does when
// equal strings are one object. Pointers of package pyobj are identities.
func Dump(obj any, o DumpOptions) ([]byte, error) {
	p := &pickler{o: o, memo: map[any]uint32{}, out: []byte{opProto, 2}}
	if err := p.save(obj); err != nil {
		return nil, err
	}
	return append(p.out, opStop), nil
}

func (p *pickler) emit(b ...byte) { p.out = append(p.out, b...) }

// memoize gives the value just written the next memo entry, under key unless it is nil.
func (p *pickler) memoize(key any) {
	if p.next < 256 {
		p.emit(opBinPut, byte(p.next))
	} else {
		p.emit(opLongBinPut)
		p.out = binary.LittleEndian.AppendUint32(p.out, p.next)
	}
	if key != nil {
		p.memo[key] = p.next
	}
	p.next++
}

// recall writes a value from the memo, if it is there.
func (p *pickler) recall(key any) bool {
	at, ok := p.memo[key]
	if !ok {
		return false
	}
	if at < 256 {
		p.emit(opBinGet, byte(at))
	} else {
		p.emit(opLongBinGet)
		p.out = binary.LittleEndian.AppendUint32(p.out, at)
	}
	return true
}

func (p *pickler) save(v any) error {
	if p.depth++; p.depth > 4*MaxDepth {
		return fmt.Errorf("objects nest deeper than %d levels", 4*MaxDepth)
	}
	defer func() { p.depth-- }()
	if done, err := p.savePersistent(v); done || err != nil {
		return err
	}
	if p.saveAtom(v) {
		return nil
	}
	switch v := v.(type) {
	case string:
		return p.saveText(v, v)
	case Text:
		return p.saveText(v.Text, v.key())
	case pyobj.Bytes:
		return p.saveBytes(string(v), v)
	case freshBytes:
		if len(v) <= 1 {
			return p.saveBytes(string(v), pyobj.Bytes(v))
		}
		return p.saveBytes(string(v), nil)
	case pyobj.Global:
		return p.saveGlobal(v)
	case tensor.DType:
		return p.saveGlobal(pyobj.Global{Module: "torch", Name: v.String()})
	}
	return p.saveObject(v)
}

// key is the text's memo key, nil for none. A text that is decoded, and so has
// no ID, is Python's only object of its kind if it is one latin-1 character.
func (t Text) key() any {
	if t.ID != nil {
		return t
	}
	if r := []rune(t.Text); len(t.Text) <= 2 && len(r) <= 1 && (len(r) == 0 || r[0] <= 0xff) {
		return t.Text
	}
	return nil
}

func (p *pickler) savePersistent(v any) (bool, error) {
	if p.o.Persistent == nil {
		return false, nil
	}
	id, err := p.o.Persistent(v)
	if id == nil || err != nil {
		return false, err
	}
	if err := p.saveTuple(id); err != nil {
		return false, err
	}
	p.emit(opBinPersID)
	return true, nil
}

// saveAtom writes what has no place in the memo.
func (p *pickler) saveAtom(v any) bool {
	switch v := v.(type) {
	case nil:
		p.emit(opNone)
	case bool:
		if v {
			p.emit(opNewTrue)
		} else {
			p.emit(opNewFalse)
		}
	case int:
		p.saveInt(int64(v))
	case int64:
		p.saveInt(v)
	case *big.Int:
		b := longBytes(v)
		if len(b) > 255 {
			p.emit(opLong4)
			p.out = binary.LittleEndian.AppendUint32(p.out, uint32(len(b)))
		} else {
			p.emit(opLong1, byte(len(b)))
		}
		p.emit(b...)
	case float64:
		p.emit(opBinFloat)
		p.out = binary.BigEndian.AppendUint64(p.out, math.Float64bits(v))
	default:
		return false
	}
	return true
}

func (p *pickler) saveInt(v int64) {
	switch {
	case v >= 0 && v <= 0xff:
		p.emit(opBinInt1, byte(v))
	case v >= 0 && v <= 0xffff:
		p.emit(opBinInt2, byte(v), byte(v>>8))
	case v >= math.MinInt32 && v <= math.MaxInt32:
		p.emit(opBinInt)
		p.out = binary.LittleEndian.AppendUint32(p.out, uint32(v))
	default:
		b := longBytes(big.NewInt(v))
		p.emit(opLong1, byte(len(b)))
		p.emit(b...)
	}
}

// longBytes is an integer in two's complement, little-endian and as short as
// can be; none for 0. Source: pickle.encode_long.
func longBytes(v *big.Int) []byte {
	if v.Sign() == 0 {
		return nil
	}
	bits := v.BitLen()
	if v.Sign() < 0 {
		bits = new(big.Int).Not(v).BitLen()
	}
	n := bits/8 + 1 // one more bit for the sign
	mod := v
	if v.Sign() < 0 {
		mod = new(big.Int).Add(v, new(big.Int).Lsh(big.NewInt(1), uint(8*n)))
	}
	out := mod.FillBytes(make([]byte, n))
	for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// saveText writes a str; key is its memo key, nil for none.
func (p *pickler) saveText(text string, key any) error {
	if key != nil && p.recall(key) {
		return nil
	}
	if len(text) > math.MaxUint32 {
		return fmt.Errorf("a str of %d bytes does not fit protocol 2", len(text))
	}
	p.emit(opBinUnicode)
	p.out = binary.LittleEndian.AppendUint32(p.out, uint32(len(text)))
	p.out = append(p.out, text...)
	p.memoize(key)
	return nil
}

// saveBytes writes bytes as protocol 2 must: a call that encodes text.
func (p *pickler) saveBytes(b string, key any) error {
	if key != nil && p.recall(key) {
		return nil
	}
	r := &Reduction{Func: pyobj.Global{Module: "__builtin__", Name: "bytes"}, Args: &pyobj.Tuple{}}
	if len(b) > 0 {
		text := make([]rune, len(b))
		for i := range len(b) {
			text[i] = rune(b[i])
		}
		r = &Reduction{Func: encodeFunc, Args: &pyobj.Tuple{Items: []any{Text{Text: string(text)}, "latin1"}}}
	}
	return p.reduce(r, key)
}

// oldNames is what protocol 2 calls some of Python 3's builtins.
// Source: _compat_pickle.REVERSE_NAME_MAPPING and REVERSE_IMPORT_MAPPING.
var oldNames = map[pyobj.Global]pyobj.Global{
	{Module: "builtins", Name: "int"}: {Module: "__builtin__", Name: "long"},
	{Module: "builtins", Name: "str"}: {Module: "__builtin__", Name: "unicode"},
}

func (p *pickler) saveGlobal(g pyobj.Global) error {
	if old, ok := oldNames[g]; ok {
		g = old
	}
	switch g.Module {
	case "builtins":
		g.Module = "__builtin__"
	case "copyreg":
		g.Module = "copy_reg"
	}
	if p.recall(g) {
		return nil
	}
	for _, word := range []string{g.Module, g.Name} {
		for i := range len(word) {
			if word[i] == '\n' {
				return fmt.Errorf("class name %q holds a newline", g)
			}
		}
	}
	p.emit(opGlobal)
	p.out = append(p.out, g.Module...)
	p.emit('\n')
	p.out = append(p.out, g.Name...)
	p.emit('\n')
	p.memoize(g)
	return nil
}
