package pyjson

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
)

// Each text is what CPython 3.13 wrote for the value with indent=2, sort_keys=True.
var written = []struct {
	name  string
	value any
	text  string
}{
	{"none", nil, "null"},
	{"true", true, "true"},
	{"false", false, "false"},
	{"int", int64(-7), "-7"},
	{"zero", int64(0), "0"},
	{"large int", new(big.Int).Lsh(big.NewInt(1), 70), "1180591620717411303424"},
	{"whole float", 0.0, "0.0"},
	{"negative zero", math.Copysign(0, -1), "-0.0"},
	{"tiny", 1e-05, "1e-05"},
	{"last without exponent", 0.0001, "0.0001"},
	{"sum", 0.1 + math.Float64frombits(0x3fc999999999999a), "0.30000000000000004"},
	{"first with exponent", 1e16, "1e+16"},
	{"last large without exponent", 9999999999999998.0, "9999999999999998.0"},
	{"million billion", 1e15, "1000000000000000.0"},
	{"seventeen digits", 123456789012345680.0, "1.2345678901234568e+17"},
	{"smallest", 5e-324, "5e-324"},
	{"largest", math.MaxFloat64, "1.7976931348623157e+308"},
	{"three-digit exponent", 1e100, "1e+100"},
	{"loss", 8.341870307922363, "8.341870307922363"},
	{"nan", math.NaN(), "NaN"},
	{"inf", math.Inf(1), "Infinity"},
	{"-inf", math.Inf(-1), "-Infinity"},
	{"escapes", "a\"\\/\b\f\n\r\t\x00\x1f\x7f", `"a\"\\/\b\f\n\r\t\u0000\u001f\u007f"`},
	{"wide text", "é\U0001f600", `"\u00e9\ud83d\ude00"`},
	{"lone surrogate", "\xed\xa0\x80x", `"\ud800x"`},
	{"markup", "<&>", `"<&>"`},
	{"empty list", []any{}, "[]"},
	{"empty dict", map[string]any{}, "{}"},
	{"list", []any{int64(1), []any{}, "x"}, "[\n  1,\n  [],\n  \"x\"\n]"},
	{
		"sorted dict",
		map[string]any{"é": int64(1), "z": int64(2), "\U0001f600": int64(3), "\uffff": map[string]any{"k": nil}},
		"{\n  \"z\": 2,\n  \"\\u00e9\": 1,\n  \"\\uffff\": {\n    \"k\": null\n  },\n  \"\\ud83d\\ude00\": 3\n}",
	},
}

func TestWrittenAsPythonWrites(t *testing.T) {
	for _, c := range written {
		t.Run(c.name, func(t *testing.T) {
			got, err := Encode(c.value)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.text {
				t.Errorf("Encode = %s, Python writes %s", got, c.text)
			}
			back, err := Decode([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			again, err := Encode(back)
			if err != nil || string(again) != c.text {
				t.Errorf("decoded and written again: %s, %v", again, err)
			}
			if f, ok := c.value.(float64); (!ok || !math.IsNaN(f)) && !reflect.DeepEqual(back, c.value) {
				t.Errorf("Decode = %#v, want %#v", back, c.value)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	for text, want := range map[string]any{
		" \t\r\n1 ":            int64(1),
		"-0":                   int64(0),
		"1e2":                  100.0,
		"1E+2":                 100.0,
		"1.5e-3":               0.0015,
		"1e400":                math.Inf(1),
		`{"a":1,"a":2}`:        map[string]any{"a": int64(2)},
		`"\uD83D\uDE00"`:       "\U0001f600",
		`"\ud83d\u0041"`:       "\xed\xa0\xbdA",
		`"\/"`:                 "/",
		`[1,2 , 3]`:            []any{int64(1), int64(2), int64(3)},
		"9223372036854775807":  int64(math.MaxInt64),
		"9223372036854775808":  new(big.Int).SetUint64(1 << 63),
		"-9223372036854775808": int64(math.MinInt64),
	} {
		got, err := Decode([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Decode(%q) = %#v, %v, want %#v", text, got, err, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct {
		text         string
		line, column int
		problem      string
	}{
		{"", 1, 1, "ends where a value should start"},
		{"\ufeff1", 1, 1, "expected a value"},
		{"1.", 1, 2, "extra data"},
		{"-", 1, 2, "expected a digit"},
		{"01", 1, 2, "extra data"},
		{"1e", 1, 2, "extra data"},
		{"NaN1", 1, 4, "extra data"},
		{"[1,]", 1, 4, "expected a value"},
		{"[1", 1, 3, "the file is cut"},
		{"{\"a\": 1,\n", 2, 1, "key in double quotes"},
		{`{"a" 1}`, 1, 6, "':' after the key"},
		{`{"a":1]`, 1, 7, "expected ',' or '}'"},
		{`{1:2}`, 1, 2, "key in double quotes"},
		{`"abc`, 1, 5, "the file is cut"},
		{"\"a\nb\"", 1, 3, "control character 0x0a"},
		{"\"a\xff\"", 1, 2, "not UTF-8"},
		{`"\x"`, 1, 3, "unknown escape"},
		{`"\u12 4"`, 1, 4, "four hexadecimal digits"},
		{`"\u+123"`, 1, 4, "four hexadecimal digits"},
		{"'a'", 1, 1, "expected a value"},
		{"nul", 1, 1, "expected a value"},
		{"{\n  \"a\": tru\n}", 2, 8, "expected a value"},
		{strings.Repeat("[", 5000), 1, 1002, "nested deeper"},
		{strings.Repeat("9", 4301), 1, 1, "over the limit of 4300"},
	} {
		_, err := Decode([]byte(c.text))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("Decode(%.20q) = %v, want a *SyntaxError", c.text, err)
			continue
		}
		if syntax.Line != c.line || syntax.Column != c.column || !strings.Contains(err.Error(), c.problem) {
			t.Errorf("Decode(%.20q) = %v, want line %d column %d: … %s", c.text, err, c.line, c.column, c.problem)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	deep := any("end")
	for range maxDepth + 2 {
		deep = []any{deep}
	}
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"type":     {map[string]any{"a": []any{1, struct{}{}}}, `["a"]: [1]: a value of type struct {} has no JSON form`},
		"text":     {"ab\xff", "not UTF-8 at byte 2"},
		"key text": {map[string]any{"\xff": nil}, "not UTF-8 at byte 0"},
		"depth":    {deep, "nested deeper"},
	} {
		if out, err := Encode(c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Encode = %.20s, %v, want an error with %q", name, out, err, c.want)
		}
	}
}

func TestFloatReprOutsideJSON(t *testing.T) {
	for f, want := range map[float64]string{math.Inf(1): "inf", math.Inf(-1): "-inf", -1e-05: "-1e-05", 3: "3.0"} {
		if got := FloatRepr(f); got != want {
			t.Errorf("FloatRepr(%v) = %q, want %q", f, got, want)
		}
	}
	if got := FloatRepr(math.NaN()); got != "nan" {
		t.Errorf("FloatRepr(NaN) = %q", got)
	}
}

func TestCloneShares(t *testing.T) {
	original := map[string]any{"list": []any{map[string]any{"x": 1.5}}, "n": nil}
	clone := CloneMap(original)
	if !reflect.DeepEqual(clone, original) {
		t.Fatalf("clone %v differs from %v", clone, original)
	}
	clone["list"].([]any)[0].(map[string]any)["x"] = 2.5
	if got := original["list"].([]any)[0].(map[string]any)["x"]; got != 1.5 {
		t.Errorf("a change of the clone reached the original: %v", got)
	}
	if CloneMap(nil) != nil {
		t.Error("the clone of nil is not nil")
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range written {
		f.Add([]byte(c.text))
	}
	f.Add([]byte(`{"a": [1, 2.5, "\ud800", {"b": -Infinity}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Decode(data)
		if err != nil {
			return
		}
		once, err := Encode(v)
		if err != nil {
			t.Fatalf("decoded %q cannot be written: %v", data, err)
		}
		back, err := Decode(once)
		if err != nil {
			t.Fatalf("written %q cannot be read: %v", once, err)
		}
		twice, err := Encode(back)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("not stable: %q, then %q, %v", once, twice, err)
		}
	})
}

func ExampleEncode() {
	text, err := Encode(map[string]any{"loss": 0.0, "learning_rate": 1e-05, "step": 2, "grad_norm": math.NaN()})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(string(text))
	// Output:
	// {
	//   "grad_norm": NaN,
	//   "learning_rate": 1e-05,
	//   "loss": 0.0,
	//   "step": 2
	// }
}
