package pickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"rejoin/pyobj"
)

// MaxDepth is how deeply containers may nest, as deep as CPython itself writes
// them with its default recursion limit.
const MaxDepth = 1000

// Bytes of memory that an object may take per byte of pickle, and in all for a
// small pickle: well above what Python writes, far below a bomb.
const (
	memoryPerByte = 64
	memoryFloor   = 4 << 20
)

// kind is what the scan knows of a value without making it.
type kind uint8

const (
	kindAtom kind = iota // None, bool, int, float
	kindString
	kindBytes
	kindList
	kindDict
	kindSet
	kindTuple
	kindClass
	kindObject     // the result of a call
	kindPersistent // what a persistent id stands for
)

var kindNames = [...]string{"a plain value", "a string", "bytes", "a list", "a dict", "a set", "a tuple", "a class", "an object", "a storage"}

// symbol stands for a value on the stack or in the memo.
type symbol struct {
	kind     kind
	depth    int32 // of nesting, where it is known
	from, to int   // a string's bytes in the input
}

// program is a pickle that the scan has accepted, rewritten for the interpreter.
type program struct {
	code    []byte
	globals []pyobj.Global
	length  int // of the pickle in its input, STOP included
}

type scanner struct {
	in       []byte
	pos      int
	start    int // of the current opcode
	code     []byte
	stack    []symbol
	marks    []int // stack heights
	memo     map[uint32]symbol
	globals  []pyobj.Global
	numbers  map[pyobj.Global]int
	cost     int  // estimated bytes of all objects made
	short    bool // more bytes were needed than there are
	complete bool
}

// scan checks the pickle at the beginning of in and rewrites it.
func scan(in []byte) (*program, error) {
	s := &scanner{in: in, memo: map[uint32]symbol{}, numbers: map[pyobj.Global]int{}}
	for !s.complete {
		s.start = s.pos
		op, err := s.byte()
		if err != nil {
			return nil, &StreamError{Offset: s.start, Problem: "the pickle ends without STOP", Short: true}
		}
		step := steps[op]
		if step == nil {
			return nil, s.fault(fmt.Sprintf("0x%02x", op), "not an opcode that checkpoints use")
		}
		if err := step(s); err != nil {
			return nil, s.fault(opcodeNames[op], err.Error())
		}
		if limit := memoryFloor + memoryPerByte*s.pos; s.cost > limit {
			return nil, s.fault(opcodeNames[op], fmt.Sprintf("the objects would take over %d bytes of memory, out of all proportion to the %d bytes that ask for them", limit, s.pos))
		}
	}
	return &program{s.code, s.globals, s.pos}, nil
}

func (s *scanner) fault(opcode, problem string) *StreamError {
	return &StreamError{Offset: s.start, Opcode: opcode, Problem: problem, Short: s.short}
}

func (s *scanner) byte() (byte, error) {
	if s.pos >= len(s.in) {
		s.short = true
		return 0, fmt.Errorf("cut short")
	}
	s.pos++
	return s.in[s.pos-1], nil
}

// take consumes n bytes; n is checked against what is left, whatever it claims.
func (s *scanner) take(n uint64) ([]byte, error) {
	if left := uint64(len(s.in) - s.pos); n > left {
		s.short = true
		return nil, fmt.Errorf("claims %d bytes, %d are left", n, left)
	}
	b := s.in[s.pos : s.pos+int(n)]
	s.pos += int(n)
	return b, nil
}

// line consumes a line and returns it without its newline.
func (s *scanner) line() ([]byte, error) {
	n := bytes.IndexByte(s.in[s.pos:], '\n')
	if n < 0 {
		s.short = true
		return nil, fmt.Errorf("a line does not end")
	}
	b := s.in[s.pos : s.pos+n]
	s.pos += n + 1
	return b, nil
}

// sized consumes a length of width bytes, little-endian, and that many bytes.
func (s *scanner) sized(width uint64) ([]byte, error) {
	raw, err := s.take(width)
	if err != nil {
		return nil, err
	}
	var n [8]byte
	copy(n[:], raw)
	return s.take(binary.LittleEndian.Uint64(n[:]))
}

// pass copies the current opcode and its argument to the rewritten stream.
func (s *scanner) pass() { s.code = append(s.code, s.in[s.start:s.pos]...) }

func (s *scanner) emit(b ...byte) { s.code = append(s.code, b...) }

// base is the height of the stack at the last mark: nothing pops below it.
func (s *scanner) base() int {
	if len(s.marks) == 0 {
		return 0
	}
	return s.marks[len(s.marks)-1]
}

func (s *scanner) push(v symbol, cost int) {
	s.stack = append(s.stack, v)
	s.cost += cost
}

func (s *scanner) pop() (symbol, error) {
	if len(s.stack) <= s.base() {
		return symbol{}, fmt.Errorf("takes a value from an empty stack")
	}
	v := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	return v, nil
}

// popMark removes the last mark and returns the values above it.
func (s *scanner) popMark() ([]symbol, error) {
	if len(s.marks) == 0 {
		return nil, fmt.Errorf("there is no MARK before it")
	}
	items := s.stack[s.base():]
	s.stack = s.stack[:s.base()]
	s.marks = s.marks[:len(s.marks)-1]
	return items, nil
}

// top returns the last value, which must be of one of the kinds.
func (s *scanner) top(kinds ...kind) (*symbol, error) {
	if len(s.stack) <= s.base() {
		return nil, fmt.Errorf("needs %s on an empty stack", kindNames[kinds[0]])
	}
	v := &s.stack[len(s.stack)-1]
	if slices.Contains(kinds, v.kind) {
		return v, nil
	}
	return nil, fmt.Errorf("needs %s, found %s", kindNames[kinds[0]], kindNames[v.kind])
}

// nest notes that container holds the items, and refuses what is too deep.
func nest(container *symbol, items ...symbol) error {
	for _, item := range items {
		container.depth = max(container.depth, item.depth+1)
	}
	if container.depth > MaxDepth {
		return fmt.Errorf("objects nest deeper than %d levels", MaxDepth)
	}
	return nil
}

func (s *scanner) put(index uint32) error {
	if len(s.stack) <= s.base() {
		return fmt.Errorf("memoizes a value from an empty stack")
	}
	if _, ok := s.memo[index]; !ok {
		s.cost += 48
	}
	s.memo[index] = s.stack[len(s.stack)-1]
	return nil
}

func (s *scanner) get(index uint32) error {
	v, ok := s.memo[index]
	if !ok {
		return fmt.Errorf("memo entry %d was never stored", index)
	}
	s.push(v, 16)
	return nil
}

// global pushes a class by its number in the table.
func (s *scanner) global(g pyobj.Global) {
	n, ok := s.numbers[g]
	if !ok {
		n = len(s.globals)
		s.numbers[g] = n
		s.globals = append(s.globals, g)
		s.cost += 200 + len(g.Module) + len(g.Name)
	}
	s.emit(opGlobal, '\n')
	s.code = strconv.AppendInt(s.code, int64(n), 10)
	s.emit('\n')
	s.push(symbol{kind: kindClass}, 16)
}

// emitString rewrites a string as BINUNICODE.
func (s *scanner) emitString(text []byte) error {
	if len(text) > math.MaxUint32 {
		return fmt.Errorf("a string of %d bytes is too long", len(text))
	}
	s.emit(opBinUnicode)
	s.code = binary.LittleEndian.AppendUint32(s.code, uint32(len(text)))
	s.code = append(s.code, text...)
	return nil
}
