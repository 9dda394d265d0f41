package pickle

import (
	"errors"
	"strings"
	"testing"

	"rejoin/pyobj"
)

func TestScanRefuses(t *testing.T) {
	tests := []struct{ name, in, opcode, problem string }{
		{"nothing", "", "", "without STOP"},
		{"no stop", "\x80\x02N", "", "without STOP"},
		{"unknown opcode", "\x80\x02\xff.", "0xff", "not an opcode"},
		{"text persistent id", "P1\n.", "0x50", "not an opcode"},
		{"protocol", "\x80\x06N.", "PROTO", "protocol 6"},
		{"frame", "\x95\xff\x00\x00\x00\x00\x00\x00\x00N.", "FRAME", "claims a frame of 255 bytes"},
		{"empty stack at stop", ".", "STOP", "0 values"},
		{"two values at stop", "NN.", "STOP", "2 values"},
		{"open mark", "N(.", "STOP", "1 MARKs"},
		{"string length", "X\xff\xff\xff\xffab.", "BINUNICODE", "claims 4294967295 bytes, 3 are left"},
		{"long string length", "\x8d\x00\x00\x00\x00\x00\x00\x00\x40a.", "BINUNICODE8", "claims 4611686018427387904 bytes"},
		{"bytes length", "\x8e\xff\xff\xff\xff\xff\xff\xff\xff.", "BINBYTES8", "claims 18446744073709551615 bytes"},
		{"cut int", "J\x01\x02", "BININT", "claims 4 bytes, 2 are left"},
		{"pop of nothing", "0.", "POP", "empty stack"},
		{"tuple of nothing", "\x86.", "TUPLE2", "needs 2 values"},
		{"tuple below a mark", "NN(N\x86.", "TUPLE2", "needs 2 values, the stack has 1"},
		{"tuple without mark", "Nt.", "TUPLE", "no MARK"},
		{"memo", "h\x05.", "BINGET", "memo entry 5"},
		{"memo text", "gx\n.", "GET", "not a memo index"},
		{"put on nothing", "q\x00.", "BINPUT", "empty stack"},
		{"append to a tuple", ")Na.", "APPEND", "needs a list, found a tuple"},
		{"append to a number", "K\x01Na.", "APPEND", "needs a list, found a plain value"},
		{"odd items", "}(NNNu.", "SETITEMS", "a key has no value"},
		{"odd dict", "(Nd.", "DICT", "a key has no value"},
		{"items of a list", "](NNu.", "SETITEMS", "needs a dict, found a list"},
		{"add to a list", "](N\x90.", "ADDITEMS", "needs a set, found a list"},
		{"call of a string", "X\x01\x00\x00\x00a)R.", "REDUCE", "needs a class, found a string"},
		{"call without a tuple", "ccollections\nOrderedDict\nNR.", "REDUCE", "needs a tuple"},
		{"state of a dict", "}}b.", "BUILD", "needs an object, found a dict"},
		{"persistent number", "K\x01Q.", "BINPERSID", "needs a tuple"},
		{"class name cut", "ccollections\nOrd", "GLOBAL", "a line does not end"},
		{"class by numbers", "NN\x93.", "STACK_GLOBAL", "needs a string"},
		{"not a number", "Lxyz\n.", "LONG", "is not an integer"},
		{"long number", "L" + strings.Repeat("9", 9000) + "\n.", "LONG", "9000 digits"},
		{"long long", "\x8b\x00\x20\x00\x00" + strings.Repeat("x", 0x2000) + ".", "LONG4", "8192 bytes is too long"},
		{"float", "Fx\n.", "FLOAT", "is not a number"},
		{"cut escape", "V\\u12\n.", "UNICODE", "cut short"},
		{"escape", "V\\Uffffffff\n.", "UNICODE", "is not a character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := scan([]byte(tt.in))
			var e *StreamError
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want a StreamError", err)
			}
			if e.Opcode != tt.opcode || !strings.Contains(e.Problem, tt.problem) {
				t.Errorf("%v, want %s and %q", e, tt.opcode, tt.problem)
			}
		})
	}
}

func TestScanBoundsDepthAndMemory(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("]", n) + strings.Repeat("a", n-1) + "." }
	slow := func(n int) string { // with memo entries, as Python writes it
		var b strings.Builder
		for range n {
			b.WriteString("]r\x00\x00\x00\x00")
		}
		return b.String() + strings.Repeat("a", n-1) + "."
	}
	tests := []struct{ name, in, problem string }{
		{"as deep as Python writes", nested(MaxDepth), ""},
		{"deeper", nested(MaxDepth + 1), "deeper than"},
		{"a million deep", slow(1_000_000), "deeper than"},
		{"lists without end", strings.Repeat("]", 3_000_000), "out of all proportion"},
		{"dicts without end", strings.Repeat("}", 3_000_000), "out of all proportion"},
		{"marks without end", strings.Repeat("(", 3_000_000), "MARKs are open"},
		{"small tuples without end", strings.Repeat("(t", 1_500_000), "out of all proportion"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := scan([]byte(tt.in))
			if tt.problem == "" && err != nil {
				t.Fatal(err)
			}
			if tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
				t.Errorf("error %v, want %q", err, tt.problem)
			}
		})
	}
}

func TestScanNumbersClasses(t *testing.T) {
	in := "\x80\x02(ca\nb\nq\x00\x8c\x01a\x8c\x01b\x93cx\ny\nt."
	p, err := scan([]byte(in + "trailing"))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.globals) != 2 || p.globals[0] != (pyobj.Global{Module: "a", Name: "b"}) || p.globals[1] != (pyobj.Global{Module: "x", Name: "y"}) {
		t.Errorf("classes %v", p.globals)
	}
	if p.length != len(in) {
		t.Errorf("length %d, want %d", p.length, len(in))
	}
	if n, err := Length([]byte(in)); err != nil || n != len(in) {
		t.Errorf("Length: %d, %v", n, err)
	}
}
