package pickle

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"rejoin/pyobj"
)

// Estimated bytes of memory per object, intermediate and final form together.
const (
	costAtom  = 16
	costText  = 48
	costList  = 160
	costDict  = 320
	costTuple = 96
	costMark  = 256 // the interpreter's new stack
	costCall  = 400
)

// steps is the allow-list: what each opcode checks and becomes.
var steps [256]func(*scanner) error

func init() {
	steps = [256]func(*scanner) error{
		opProto: scanProto, opFrame: scanFrame, opStop: scanStop,
		opMark: scanMark, opPop: scanPop, opPopMark: scanPopMark, opDup: scanDup,
		opNone: plain(0), opNewTrue: plain(0), opNewFalse: plain(0),
		opBinInt: plain(4), opBinInt1: plain(1), opBinInt2: plain(2), opBinFloat: plain(8),
		opInt: scanInt, opLong: scanLong, opFloat: scanFloat, opLong1: scanLongBytes(1), opLong4: scanLongBytes(4),
		opShortBinString: text(1, kindString), opBinString: text(4, kindString), opShortBinUnicode: text(1, kindString),
		opBinUnicode: text(4, kindString), opBinUnicode8: text(8, kindString), opUnicode: scanUnicode,
		opShortBinBytes: text(1, kindBytes), opBinBytes: text(4, kindBytes), opBinBytes8: text(8, kindBytes), opByteArray8: text(8, kindBytes),
		opGet: scanGet(-1), opBinGet: scanGet(1), opLongBinGet: scanGet(4),
		opPut: scanPut(-1), opBinPut: scanPut(1), opLongBinPut: scanPut(4), opMemoize: scanMemoize,
		opEmptyList: empty(kindList, costList), opEmptyDict: empty(kindDict, costDict), opEmptyTuple: empty(kindTuple, costTuple), opEmptySet: scanEmptySet,
		opTuple1: scanTuple(1), opTuple2: scanTuple(2), opTuple3: scanTuple(3), opTuple: scanTuple(-1),
		opList: scanList, opDict: scanDict, opFrozenSet: scanFrozenSet,
		opAppend: scanAppend, opAppends: scanAppends, opSetItem: scanSetItem, opSetItems: scanSetItems, opAddItems: scanAddItems,
		opGlobal: scanGlobal, opStackGlobal: scanStackGlobal,
		opReduce: scanCall, opNewObj: scanCall, opNewObjEx: scanNewObjEx, opBuild: scanBuild, opBinPersID: scanPersistent,
	}
}

func scanProto(s *scanner) error {
	version, err := s.byte()
	if err == nil && version > 5 {
		return fmt.Errorf("protocol %d is not known (5 is the highest)", version)
	}
	return err
}

// scanFrame drops a frame's header: it only helps to read ahead.
func scanFrame(s *scanner) error {
	raw, err := s.take(8)
	if err != nil {
		return err
	}
	if n, left := binary.LittleEndian.Uint64(raw), uint64(len(s.in)-s.pos); n > left {
		return fmt.Errorf("claims a frame of %d bytes, %d are left", n, left)
	}
	return nil
}

func scanStop(s *scanner) error {
	if len(s.marks) > 0 {
		return fmt.Errorf("%d MARKs are still open", len(s.marks))
	}
	if len(s.stack) != 1 {
		return fmt.Errorf("%d values are on the stack, expected 1", len(s.stack))
	}
	s.pass()
	s.complete = true
	return nil
}

func scanMark(s *scanner) error {
	if len(s.marks) >= 2*MaxDepth {
		return fmt.Errorf("over %d MARKs are open", 2*MaxDepth)
	}
	s.marks = append(s.marks, len(s.stack))
	s.cost += costMark
	s.pass()
	return nil
}

func scanPop(s *scanner) error {
	s.pass()
	if len(s.stack) == s.base() && len(s.marks) > 0 {
		_, err := s.popMark()
		return err
	}
	_, err := s.pop()
	return err
}

func scanPopMark(s *scanner) error {
	s.pass()
	_, err := s.popMark()
	return err
}

func scanDup(s *scanner) error {
	v, err := s.pop()
	if err != nil {
		return err
	}
	s.pass()
	s.push(v, 0)
	s.push(v, costAtom)
	return nil
}

// plain is an opcode with an argument of n bytes that pushes a plain value.
func plain(n uint64) func(*scanner) error {
	return func(s *scanner) error {
		if _, err := s.take(n); err != nil {
			return err
		}
		s.pass()
		s.push(symbol{kind: kindAtom}, costAtom)
		return nil
	}
}

// text is an opcode with a length of width bytes and as many bytes.
func text(width uint64, k kind) func(*scanner) error {
	return func(s *scanner) error {
		b, err := s.sized(width)
		if err != nil {
			return err
		}
		s.pass()
		s.push(symbol{kind: k, from: s.pos - len(b), to: s.pos}, costText+2*len(b))
		return nil
	}
}

func scanInt(s *scanner) error {
	line, err := s.line()
	if err != nil {
		return err
	}
	switch string(line) {
	case "00":
		s.emit(opNewFalse)
	case "01":
		s.emit(opNewTrue)
	default:
		return s.number(string(line))
	}
	s.push(symbol{kind: kindAtom}, costAtom)
	return nil
}

func scanLong(s *scanner) error {
	line, err := s.line()
	if err != nil {
		return err
	}
	return s.number(strings.TrimSuffix(string(line), "L"))
}

// number rewrites a decimal integer as LONG1.
func (s *scanner) number(digits string) error {
	if len(digits) > 2*maxLong {
		return fmt.Errorf("an integer of %d digits is too long", len(digits))
	}
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return fmt.Errorf("%q is not an integer", digits)
	}
	return s.long(longBytes(n))
}

// maxLong is the longest integer, in bytes: the interpreter takes quadratic time.
const maxLong = 1024

// long pushes an integer in two's complement. None means 0, which the
// interpreter does not know.
func (s *scanner) long(b []byte) error {
	switch {
	case len(b) > maxLong:
		return fmt.Errorf("an integer of %d bytes is too long", len(b))
	case len(b) == 0:
		s.emit(opBinInt1, 0)
	case len(b) <= 255:
		s.emit(opLong1, byte(len(b)))
	default:
		s.emit(opLong4)
		s.code = binary.LittleEndian.AppendUint32(s.code, uint32(len(b)))
	}
	s.emit(b...)
	s.push(symbol{kind: kindAtom}, costText+2*len(b))
	return nil
}

func scanFloat(s *scanner) error {
	line, err := s.line()
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(string(line), 64)
	if err != nil && f == 0 {
		return fmt.Errorf("%q is not a number", line)
	}
	s.emit(opBinFloat)
	s.code = binary.BigEndian.AppendUint64(s.code, math.Float64bits(f))
	s.push(symbol{kind: kindAtom}, costAtom)
	return nil
}

// scanLongBytes is an integer of a counted number of bytes.
func scanLongBytes(width uint64) func(*scanner) error {
	return func(s *scanner) error {
		b, err := s.sized(width)
		if err != nil {
			return err
		}
		return s.long(b)
	}
}

// scanUnicode rewrites protocol 0's raw-unicode-escape string.
func scanUnicode(s *scanner) error {
	line, err := s.line()
	if err != nil {
		return err
	}
	decoded, err := decodeRawUnicodeEscape(line)
	if err != nil {
		return err
	}
	if err := s.emitString(decoded); err != nil {
		return err
	}
	s.push(symbol{kind: kindString}, costText+2*len(decoded))
	return nil
}

// decodeRawUnicodeEscape knows \u with four hex digits and \U with eight; other bytes are latin-1.
func decodeRawUnicodeEscape(line []byte) ([]byte, error) {
	var out strings.Builder
	for i := 0; i < len(line); i++ {
		digits := 0
		if line[i] == '\\' && i+1 < len(line) {
			digits = map[byte]int{'u': 4, 'U': 8}[line[i+1]]
		}
		if digits == 0 {
			out.WriteRune(rune(line[i]))
			continue
		}
		if i+2+digits > len(line) {
			return nil, fmt.Errorf("a \\%c escape is cut short", line[i+1])
		}
		r, err := strconv.ParseUint(string(line[i+2:i+2+digits]), 16, 32)
		if err != nil || r > 0x10ffff {
			return nil, fmt.Errorf("%q is not a character", line[i:i+2+digits])
		}
		out.WriteRune(rune(r))
		i += 1 + digits
	}
	return []byte(out.String()), nil
}

// memoIndex reads an index of width bytes, or a decimal line if width is -1.
func (s *scanner) memoIndex(width int) (uint32, error) {
	if width < 0 {
		line, err := s.line()
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseUint(string(line), 10, 31)
		if err != nil {
			return 0, fmt.Errorf("%q is not a memo index", line)
		}
		return uint32(n), nil
	}
	raw, err := s.take(uint64(width))
	if err != nil {
		return 0, err
	}
	var n [4]byte
	copy(n[:], raw)
	return binary.LittleEndian.Uint32(n[:]), nil
}

func scanGet(width int) func(*scanner) error {
	return func(s *scanner) error {
		index, err := s.memoIndex(width)
		if err != nil {
			return err
		}
		s.emit(opLongBinGet)
		s.code = binary.LittleEndian.AppendUint32(s.code, index)
		return s.get(index)
	}
}

func scanPut(width int) func(*scanner) error {
	return func(s *scanner) error {
		index, err := s.memoIndex(width)
		if err != nil {
			return err
		}
		return s.store(index)
	}
}

func scanMemoize(s *scanner) error { return s.store(uint32(len(s.memo))) }

func (s *scanner) store(index uint32) error {
	s.emit(opLongBinPut)
	s.code = binary.LittleEndian.AppendUint32(s.code, index)
	return s.put(index)
}

func scanGlobal(s *scanner) error {
	module, err := s.line()
	if err != nil {
		return err
	}
	name, err := s.line()
	if err != nil {
		return err
	}
	s.global(pyobj.Global{Module: string(module), Name: string(name)})
	return nil
}

// scanStackGlobal drops the two strings and pushes the class.
func scanStackGlobal(s *scanner) error {
	var words [2]string
	for i := 1; i >= 0; i-- {
		v, err := s.top(kindString)
		if err != nil {
			return err
		}
		if v.to == 0 {
			return fmt.Errorf("names a class with a computed string")
		}
		words[i] = string(s.in[v.from:v.to])
		s.stack = s.stack[:len(s.stack)-1]
		s.emit(opPop)
	}
	s.global(pyobj.Global{Module: words[0], Name: words[1]})
	return nil
}
