package pickle

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

func TestDump(t *testing.T) {
	list := &pyobj.List{}
	self := &pyobj.List{}
	self.Items = []any{self}
	tuple := &pyobj.Tuple{}
	holder := &pyobj.List{Items: []any{tuple}}
	tuple.Items = []any{holder}
	tests := []struct {
		name string
		in   any
		want string // without PROTO and STOP
	}{
		{"none", nil, "N"},
		{"bool", true, "\x88"},
		{"int", 255, "K\xff"},
		{"int2", int64(256), "M\x00\x01"},
		{"int4", int64(-1), "J\xff\xff\xff\xff"},
		{"long", int64(1) << 31, "\x8a\x05\x00\x00\x00\x80\x00"},
		{"negative long", int64(math.MinInt64), "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"},
		{"big", new(big.Int).Lsh(big.NewInt(1), 64), "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01"},
		{"float", 2.5, "G\x40\x04\x00\x00\x00\x00\x00\x00"},
		{"text", "é", "X\x02\x00\x00\x00\xc3\xa9q\x00"},
		{"empty tuple", &pyobj.Tuple{}, ")"},
		{"empty list", list, "]q\x00"},
		{"empty dict", pyobj.NewDict(), "}q\x00"},
		{"dict of one", pyobj.NewDict("a", nil), "}q\x00X\x01\x00\x00\x00aq\x01Ns"},
		{"equal strings", &pyobj.List{Items: []any{"ab", "ab"}}, "]q\x00(X\x02\x00\x00\x00abq\x01h\x01e"},
		{"one list twice", &pyobj.List{Items: []any{list, list}}, "]q\x00(]q\x01h\x01e"},
		{"a list in itself", self, "]q\x00h\x00a"},
		{"a tuple in itself", tuple, "]q\x00h\x00\x85q\x01a0h\x01"},
		{"class", pyobj.Global{Module: "builtins", Name: "int"}, "c__builtin__\nlong\nq\x00"},
		{"dtype", tensor.BFloat16, "ctorch\nbfloat16\nq\x00"},
		{"object", &pyobj.Object{Class: pyobj.Global{Module: "a", Name: "B"}, State: pyobj.NewDict()}, "ca\nB\nq\x00)\x81q\x01}q\x02b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Dump(tt.in, DumpOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if want := "\x80\x02" + tt.want + "."; string(got) != want {
				t.Errorf("got %q, want %q", got, want)
			}
			back, _, err := Load(got, Options{Describe: true})
			if err != nil {
				t.Fatal(err)
			}
			again, err := Dump(back, DumpOptions{})
			if err != nil || string(again) != string(got) && tt.name != "dtype" {
				t.Errorf("read and written again: %q, %v", again, err)
			}
		})
	}
}

func TestDumpRefuses(t *testing.T) {
	deep := &pyobj.List{}
	for range 5 * MaxDepth {
		deep = &pyobj.List{Items: []any{deep}}
	}
	tests := []struct {
		name    string
		in      any
		problem string
	}{
		{"a Go struct", struct{}{}, "cannot be written"},
		{"too deep", deep, "nest deeper"},
		{"class with a newline", pyobj.Global{Module: "a\nb", Name: "c"}, "newline"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Dump(tt.in, DumpOptions{}); err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("error %v, want %q", err, tt.problem)
			}
		})
	}
}
