package pickle

import (
	"errors"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"rejoin/pyobj"
)

func load(t *testing.T, in string, o Options) any {
	t.Helper()
	v, n, err := Load([]byte(in), o)
	if err != nil {
		t.Fatal(err)
	}
	if n != len(in) {
		t.Fatalf("took %d of %d bytes", n, len(in))
	}
	return v
}

func TestLoadValues(t *testing.T) {
	big80 := new(big.Int).Lsh(big.NewInt(1), 80)
	tests := []struct {
		name, in string
		want     any
	}{
		{"none", "N.", nil},
		{"true", "\x88.", true},
		{"text true", "I01\n.", true},
		{"text false", "I00\n.", false},
		{"text int", "I-12\n.", int64(-12)},
		{"text long", "L12L\n.", int64(12)},
		{"int", "J\xff\xff\xff\xff.", int64(-1)},
		{"int2", "M\x01\x02.", int64(513)},
		{"long 0 of no bytes", "\x8a\x00.", int64(0)},
		{"long of 8 bytes", "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", int64(-1 << 63)},
		{"long of 9 bytes that fits", "\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x00\x00.", int64(1)},
		{"big", "\x8a\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01.", big80},
		{"text float", "F2.5\n.", 2.5},
		{"float", "G\x40\x04\x00\x00\x00\x00\x00\x00.", 2.5},
		{"text", "X\x02\x00\x00\x00\xc3\xa9.", "é"},
		{"old text", "U\x01a.", "a"},
		{"escaped text", "V\\u00e9\xe9\n.", "éé"},
		{"bytes", "C\x02\x00\xff.", pyobj.Bytes("\x00\xff")},
		{"bytes by text", "c_codecs\nencode\n(X\x02\x00\x00\x00\xc3\xbfX\x06\x00\x00\x00latin1tR.", pyobj.Bytes("\xff")},
		{"no bytes", "c__builtin__\nbytes\n)R.", pyobj.Bytes("")},
		{"bytearray", "\x96\x01\x00\x00\x00\x00\x00\x00\x00a.", &pyobj.ByteArray{Data: []byte("a")}},
		{"bytearray by text", "c__builtin__\nbytearray\nX\x01\x00\x00\x00aX\x07\x00\x00\x00latin-1\x86R.", &pyobj.ByteArray{Data: []byte("a")}},
		{"complex", "c__builtin__\ncomplex\nG\x3f\xf0\x00\x00\x00\x00\x00\x00K\x02\x86R.", 1 + 2i},
		{"tuple", "K\x01K\x02\x86.", &pyobj.Tuple{Items: []any{int64(1), int64(2)}}},
		{"list", "](NNe.", &pyobj.List{Items: []any{nil, nil}}},
		{"old list", "(NNl.", &pyobj.List{Items: []any{nil, nil}}},
		{"set", "\x8f(K\x02K\x01\x90.", &pyobj.Set{Items: []any{int64(2), int64(1)}}},
		{"frozenset", "(K\x01\x91.", &pyobj.Set{Items: []any{int64(1)}, Frozen: true}},
		{"frozenset by call", "c__builtin__\nfrozenset\n]K\x01a\x85R.", &pyobj.Set{Items: []any{int64(1)}, Frozen: true}},
		{"class", "c__builtin__\nlong\n.", pyobj.Global{Module: "__builtin__", Name: "long"}},
		{"popped", "NK\x010.", nil},
		{"popped mark", "N(K\x011.", nil},
		{"doubled", "K\x012\x86.", &pyobj.Tuple{Items: []any{int64(1), int64(1)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := load(t, tt.in, Options{}); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %#v, want %#v", got, tt.want)
			}
		})
	}
}

func TestLoadDicts(t *testing.T) {
	tests := []struct {
		name, in string
		kind     pyobj.Kind
	}{
		{"dict", "}(U\x01aK\x01U\x01bK\x02U\x01aK\x03u.", pyobj.PlainDict},
		{"old dict", "(U\x01aK\x01U\x01bK\x02U\x01aK\x03d.", pyobj.PlainDict},
		{"ordered", "ccollections\nOrderedDict\n)R(U\x01aK\x01U\x01bK\x02U\x01aK\x03u.", pyobj.OrderedDict},
		{"ordered of Python 2", "ccollections\nOrderedDict\n](](U\x01aK\x03e](U\x01bK\x02ee\x85R.", pyobj.OrderedDict},
		{"counter", "ccollections\nCounter\n}(U\x01aK\x03U\x01bK\x02u\x85R.", pyobj.Counter},
		{"default", "ccollections\ndefaultdict\nc__builtin__\nint\n\x85R(U\x01aK\x03U\x01bK\x02u.", pyobj.DefaultDict},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := pyobj.AsDict(load(t, tt.in, Options{}))
			if err != nil {
				t.Fatal(err)
			}
			want := []pyobj.Entry{{Key: "a", Value: int64(3)}, {Key: "b", Value: int64(2)}}
			if d.Kind != tt.kind || !reflect.DeepEqual(d.Entries(), want) {
				t.Errorf("kind %d, entries %v", d.Kind, d.Entries())
			}
			if wantFactory := tt.kind == pyobj.DefaultDict; (d.Factory != nil) != wantFactory {
				t.Errorf("factory %v", d.Factory)
			}
		})
	}
}

func TestLoadKeepsIdentity(t *testing.T) {
	v := load(t, "](]q\x00h\x00e.", Options{})
	items, _ := pyobj.AsItems(v)
	if items[0] != items[1] {
		t.Error("one list became two")
	}
	self := load(t, "]q\x00h\x00a.", Options{}).(*pyobj.List)
	if self.Items[0] != any(self) {
		t.Error("a list in itself is another list")
	}
	object := load(t, "ca\nB\n)\x81q\x00}U\x01xh\x00sb.", Options{Describe: true}).(*pyobj.Object)
	if x, _ := object.Attr("x"); x != any(object) {
		t.Error("an object in its own state is another object")
	}
}

func TestDescribe(t *testing.T) {
	in := "ca.b\nColor\nU\x03red\x85R."
	_, _, err := Load([]byte("}U\x01k](N"+in[:len(in)-1]+"es."), Options{})
	var unsupported *UnsupportedGlobalError
	if !errors.As(err, &unsupported) || unsupported.KeyPath != "k.1" || unsupported.Global.Name != "Color" || unsupported.Forbidden {
		t.Errorf("error %v", err)
	}
	got := load(t, in, Options{Describe: true})
	want := &pyobj.Object{Class: pyobj.Global{Module: "a.b", Name: "Color"}, Args: &pyobj.Tuple{Items: []any{"red"}}, Called: true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v", got)
	}
	ex := load(t, "ca\nB\n)}\x92.", Options{Describe: true}).(*pyobj.Object)
	if ex.Class.Name != "__newobj_ex__" || len(ex.Args.Items) != 3 {
		t.Errorf("NEWOBJ_EX became %#v", ex)
	}
}

func TestForbiddenIsRefusedEverywhere(t *testing.T) {
	for _, g := range []string{
		"os\nsystem", "posix\nsystem", "nt\nsystem", "sys\nexit", "subprocess\nPopen", "builtins\neval", "__builtin__\neval",
		"builtins\nexec", "builtins\ngetattr", "builtins\n__import__", "os.path\njoin", "importlib\nimport_module",
		"operator\nattrgetter", "torch.hub\nload", "shutil\nrmtree",
	} {
		for _, in := range []string{
			"c" + g + "\nU\x02id\x85R.",        // called at the top
			"c" + g + "\n.",                    // as a value
			"c" + g + "\n0N.",                  // dropped before the end
			"}U\x01kc" + g + "\nU\x01x\x85Rs.", // called in a dict
		} {
			for _, describe := range []bool{false, true} {
				_, _, err := Load([]byte(in), Options{Describe: describe})
				var unsupported *UnsupportedGlobalError
				if !errors.As(err, &unsupported) || !unsupported.Forbidden {
					t.Errorf("%q, describe %v: error %v", in, describe, err)
				}
			}
		}
	}
	_, _, err := Load([]byte("}U\x01kcos\nsystem\nU\x02id\x85Rs."), Options{})
	if err == nil || !strings.Contains(err.Error(), "key k asks to call os.system") {
		t.Errorf("error %v", err)
	}
}

func TestLoadRefusesValues(t *testing.T) {
	tests := []struct{ name, in, problem string }{
		{"persistent id in a plain pickle", "U\x01a\x85Q.", "persistent id"},
		{"two states", "ccollections\nOrderedDict\n)R}b}b.", "two states"},
		{"encode of a number", "c_codecs\nencode\nK\x01\x85R.", "expected a str"},
		{"encode in another encoding", "c_codecs\nencode\nU\x01aU\x05utf-8\x86R.", "expected latin1"},
		{"encode of wide text", "c_codecs\nencode\nX\x03\x00\x00\x00\xe5\x90\x8d\x85R.", "U+540D"},
		{"bytearray of a number", "c__builtin__\nbytearray\nK\x01\x85R.", "expected bytes"},
		{"complex of one number", "c__builtin__\ncomplex\nK\x01\x85R.", "expected 2"},
		{"dict of numbers", "ccollections\nOrderedDict\n]K\x01a\x85R.", "expected pairs"},
		{"set of a number", "c__builtin__\nset\nK\x01\x85R.", "a set is made of"},
		{"call of an int", "c__builtin__\nint\nK\x01\x85R.", "__builtin__.int"},
		{"made of itself", "c_codecs\nencode\n(](c_codecs\nencode\n)RetR.", "_codecs.encode"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Load([]byte(tt.in), Options{})
			if err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("error %v, want %q", err, tt.problem)
			}
		})
	}
}

// A short pickle that copies one long text again and again must stop.
func TestCopiesAreBounded(t *testing.T) {
	text := strings.Repeat("a", 1<<16)
	var b strings.Builder
	b.WriteString("](c_codecs\nencode\nq\x00X\x00\x00\x01\x00" + text + "\x85q\x01R")
	for range 5000 {
		b.WriteString("h\x00h\x01R")
	}
	b.WriteString("e.")
	_, _, err := Load([]byte(b.String()), Options{})
	if err == nil || !strings.Contains(err.Error(), "more memory") {
		t.Errorf("error %v", err)
	}
}
