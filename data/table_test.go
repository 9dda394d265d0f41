package data_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"rejoin/data"
	"rejoin/tensor"
)

func open(t testing.TB, name string) *data.Table {
	t.Helper()
	table, err := data.OpenJSONL(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func read(t testing.TB, text string) *data.Table {
	t.Helper()
	table, err := data.ReadJSONL(strings.NewReader(text), "t.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func allRows(table *data.Table) []int {
	rows := make([]int, table.Len())
	for i := range rows {
		rows[i] = i
	}
	return rows
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func float32s(t testing.TB, table *data.Table, column string, rows []int) []float32 {
	t.Helper()
	shape, _, err := table.RowShape(column)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]float32, len(rows)*elements(shape))
	if err := table.ReadFloat32(column, rows, dst); err != nil {
		t.Fatal(err)
	}
	return dst
}

func int64s(t testing.TB, table *data.Table, column string, rows []int) []int64 {
	t.Helper()
	shape, _, err := table.RowShape(column)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]int64, len(rows)*elements(shape))
	if err := table.ReadInt64(column, rows, dst); err != nil {
		t.Fatal(err)
	}
	return dst
}

func TestTablesOfTheRuns(t *testing.T) {
	cases := []struct {
		file    string
		rows    int
		columns map[string]string // name: dtype and shape
	}{
		{"regression.jsonl", 40, map[string]string{"x": "float32[10]", "y": "float32[1]"}},
		{"digits-head.jsonl", 12, map[string]string{"x": "float32[64]", "label": "int64[]"}},
		{"sums-head.jsonl", 8, map[string]string{"input_ids": "int64[32]", "labels": "int64[32]"}},
	}
	for _, c := range cases {
		table := open(t, c.file)
		if table.Len() != c.rows || len(table.Columns()) != len(c.columns) {
			t.Errorf("%s: %d rows, columns %v", c.file, table.Len(), table.Columns())
		}
		raw, err := os.ReadFile(table.Path())
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(raw)
		if got, want := table.Digest(), hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: digest %s, expected %s", c.file, got, want)
		}
		for name, want := range c.columns {
			shape, dtype, err := table.RowShape(name)
			if got := fmt.Sprintf("%v%v", dtype, shape); err != nil || got != want {
				t.Errorf("%s, column %s: %s, %v, expected %s", c.file, name, got, err, want)
			}
		}
		compareWithJSON(t, table, raw)
	}
}

// compareWithJSON checks every readable column against encoding/json.
func compareWithJSON(t *testing.T, table *data.Table, raw []byte) {
	t.Helper()
	var rows []map[string]any
	for line := range bytes.Lines(raw) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var row map[string]any
		if err := d.Decode(&row); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", line, err)
		}
		rows = append(rows, row)
	}
	if table.Len() != len(rows) {
		t.Fatalf("%d rows, encoding/json finds %d", table.Len(), len(rows))
	}
	for _, name := range table.Columns() {
		if _, _, err := table.RowShape(name); err != nil {
			continue
		}
		var want []float32
		for _, row := range rows {
			want = appendNumbers(t, want, row[name])
		}
		got := float32s(t, table, name, allRows(table))
		if !slices.EqualFunc(got, want, func(a, b float32) bool { return a == b || a != a && b != b }) {
			t.Fatalf("column %q: %v, encoding/json finds %v", name, got, want)
		}
	}
}

func appendNumbers(t *testing.T, to []float32, v any) []float32 {
	t.Helper()
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil && !math.IsInf(f, 0) {
			t.Fatal(err)
		}
		return append(to, float32(f))
	case []any:
		for _, e := range v {
			to = appendNumbers(t, to, e)
		}
		return to
	default:
		t.Fatalf("%v (%T) was read as numbers", v, v)
		return nil
	}
}

func TestReadGathersRows(t *testing.T) {
	table := read(t, `{"x": [[1.5, 2], [3, 4]], "y": 7}
{"x": [[5, 6], [7, 8]], "y": -8}
{"x": [[9, 10], [11, 12]], "y": 9}
`)
	if got, want := float32s(t, table, "x", []int{2, 0, 2}), []float32{9, 10, 11, 12, 1.5, 2, 3, 4, 9, 10, 11, 12}; !slices.Equal(got, want) {
		t.Errorf("x: %v, expected %v", got, want)
	}
	if got, want := int64s(t, table, "y", []int{1, 1, 2}), []int64{-8, -8, 9}; !slices.Equal(got, want) {
		t.Errorf("y: %v, expected %v", got, want)
	}
	if got, want := float32s(t, table, "y", []int{1, 2}), []float32{-8, 9}; !slices.Equal(got, want) {
		t.Errorf("y as floats: %v, expected %v", got, want)
	}
	if err := table.ReadFloat32("y", nil, nil); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

func TestNumbersReadAsInPython(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	cases := []struct {
		text  string // the column v, one value a line
		dtype tensor.DType
		want  []float32
	}{
		{"1\n2\n-3", tensor.Int64, []float32{1, 2, -3}},
		{"1\n2.0", tensor.Float32, []float32{1, 2}},
		{"1.5\n2", tensor.Float32, []float32{1.5, 2}},
		{"1e2\n3", tensor.Float32, []float32{100, 3}},
		{"-0\n1.5", tensor.Float32, []float32{0, 1.5}},
		{"1.5\n-0", tensor.Float32, []float32{1.5, 0}},
		{"-0.0", tensor.Float32, []float32{float32(math.Copysign(0, -1))}},
		{"NaN\nInfinity\n-Infinity\n1", tensor.Float32, []float32{nan, inf, -inf, 1}},
		{"1e999\n-1e999\n1e300", tensor.Float32, []float32{inf, -inf, inf}},
		// Rounded to float64 first: this is 1 + 2⁻²⁴ + 2⁻⁶⁰, which one rounding would take up.
		{"1.0000000596046447754\n0", tensor.Float32, []float32{1, 0}},
		{"16777217\n0.5", tensor.Float32, []float32{16777216, 0.5}},
		{"9007199254740993\n0.5", tensor.Float32, []float32{9007199254740992, 0.5}},
		{"18446744073709551616\n1.5", tensor.Float32, []float32{18446744073709551616, 1.5}},
		{"1.5\n18446744073709551616", tensor.Float32, []float32{1.5, 18446744073709551616}},
		{"9223372036854775807\n-9223372036854775808", tensor.Int64, []float32{9223372036854775807, -9223372036854775808}},
		{"[0.1, 1]\n[2, 3]", tensor.Float32, []float32{0.1, 1, 2, 3}},
		{"[[[1]]]\n[[[2]]]", tensor.Int64, []float32{1, 2}},
	}
	for _, c := range cases {
		var text string
		for v := range strings.SplitSeq(c.text, "\n") {
			text += `{"v": ` + v + "}\n"
		}
		table := read(t, text)
		_, dtype, err := table.RowShape("v")
		if err != nil || dtype != c.dtype {
			t.Errorf("%q: %v, %v, expected %v", c.text, dtype, err, c.dtype)
			continue
		}
		for i, got := range float32s(t, table, "v", allRows(table)) {
			if math.Float32bits(got) != math.Float32bits(c.want[i]) && !(got != got && c.want[i] != c.want[i]) {
				t.Errorf("%q, number %d: %v, expected %v", c.text, i, got, c.want[i])
			}
		}
	}
}

func TestInt64KeepsAllBits(t *testing.T) {
	table := read(t, `{"id": 9007199254740993}`+"\n"+`{"id": -9223372036854775808}`)
	if got, want := int64s(t, table, "id", []int{0, 1}), []int64{9007199254740993, math.MinInt64}; !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}

func TestLayoutOfLines(t *testing.T) {
	cases := map[string]string{
		"no newline at the end": "{\"v\": 1}\n{\"v\": 2}",
		"blank lines":           "\n{\"v\": 1}\n\n  \t\n{\"v\": 2}\n\n",
		"CRLF":                  "{\"v\": 1}\r\n{\"v\": 2}\r\n",
		"byte order mark":       "\ufeff{\"v\": 1}\n{\"v\": 2}\n",
		"spaces":                " { \"v\" : 1 , \"w\" : [ ] } \n\t{\t\"v\"\t:\t2\t}\n",
		"escaped key":           "{\"\\u0076\": 1}\n{\"v\": 2}\n",
	}
	for name, text := range cases {
		table := read(t, text)
		if got := int64s(t, table, "v", allRows(table)); !slices.Equal(got, []int64{1, 2}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestLongLines(t *testing.T) {
	const n = 200_000 // longer than the reader's buffer, twice over
	line := `{"skip": "` + strings.Repeat("x", 400_000) + `", "v": [` + strings.Repeat("1.5,", n-1) + "2.5]}\n"
	table, err := data.ReadJSONL(iotest.HalfReader(strings.NewReader(line+line)), "long")
	if err != nil {
		t.Fatal(err)
	}
	v := float32s(t, table, "v", []int{1})
	if len(v) != n || v[0] != 1.5 || v[n-1] != 2.5 {
		t.Errorf("%d numbers, %v … %v", len(v), v[0], v[len(v)-1])
	}
}

func TestOtherColumnsAreTolerated(t *testing.T) {
	table := read(t, `{"text": "a\"\\\u00e9\n{[", "v": 1, "meta": {"a": [1, {"b": null}], "c": {}}, "ok": true}
{"v": 2, "text": null, "late": 5, "meta": [[], [1, "x"]], "ok": 7}
`)
	if got, want := table.Columns(), []string{"text", "v", "meta", "ok", "late"}; !slices.Equal(got, want) {
		t.Errorf("columns %v, expected %v", got, want)
	}
	if got := int64s(t, table, "v", []int{0, 1}); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("v: %v", got)
	}
}

func TestColumnErrors(t *testing.T) {
	cases := []struct {
		name, text string // of the column v, one row a line
		want       string
	}{
		{"string", `{"v": 1}|{"v": "1"}`, `t.jsonl: line 2: column "v": a string, expected a number or a list of numbers`},
		{"null", `{"v": null}`, `line 1: column "v": null, expected`},
		{"boolean", `{"v": [1, true]}`, `line 1: column "v": a boolean, expected`},
		{"object", `{"v": {"a": 1}}`, `line 1: column "v": an object, expected`},
		{"missing", `{"v": 1}|{"w": 1}`, `line 2: column "v": the column is missing in this row`},
		{"missing after a blank line", `{"v": 1}||{"w": 1}`, `line 3: column "v": the column is missing`},
		{"missing in the first", `|{"w": 1}|{"v": 1}`, `line 2: column "v": the column is missing in this row`},
		{"missing in an empty row", `{"v": 1}|{}`, `line 2: column "v": the column is missing`},
		{"no such column", `{"w": 1, "x": 1}`, `t.jsonl: column "v": no such column; the file has "w", "x"`},
		{"ragged rows", `{"v": [1, 2]}|{"v": [1, 2, 3]}`, `line 2: column "v": a list of shape [3], expected a list of shape [2] as on line 1`},
		{"number, then list", `{"v": 1}|{"v": [1]}`, `line 2: column "v": a list of shape [1], expected a number as on line 1`},
		{"list, then number", `{"v": [1]}|{"v": 1}`, `line 2: column "v": a number, expected a list of shape [1] as on line 1`},
		{"ragged inside", `{"v": [[1, 2], [3]]}`, `line 1: column "v": lists of 2 and of 1 elements side by side`},
		{"ragged below", `{"v": [[[1], [2]], [[3]]]}`, `lists of 2 and of 1 elements side by side`},
		{"mixed depth", `{"v": [1, [2]]}`, `numbers and lists side by side`},
		{"mixed depth, list first", `{"v": [[2], 1]}`, `numbers and lists side by side`},
		{"empty among others", `{"v": [[], [1]]}`, `lists of 0 and of 1 elements`},
		{"empty list", `{"v": []}`, `line 1: column "v": an empty list, expected numbers`},
		{"empty lists", `{"v": [[], []]}`, `an empty list, expected numbers`},
		{"too deep", `{"v": [[[[[[[[[1]]]]]]]]]}`, `lists nested deeper than 8`},
		{"twice", `{"v": 1, "v": 2}`, `line 1: column "v": the key stands twice in one object`},
		{"wide integer", `{"v": 1}|{"v": 9223372036854775808}`, `line 2: column "v": the integer 9223372036854775808 does not fit in 64 bits`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			table := read(t, strings.ReplaceAll(c.text, "|", "\n"))
			_, _, shapeErr := table.RowShape("v")
			for what, err := range map[string]error{
				"RowShape":    shapeErr,
				"ReadFloat32": table.ReadFloat32("v", []int{0}, make([]float32, 1)),
				"ReadInt64":   table.ReadInt64("v", []int{0}, make([]int64, 1)),
			} {
				if _, ok := errors.AsType[*data.TableError](err); !ok {
					t.Errorf("%s: %v, expected a TableError", what, err)
				} else if !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: %q does not say %q", what, err, c.want)
				}
			}
		})
	}
}

func TestReadRefusesWhatItCannotFill(t *testing.T) {
	table := read(t, "{\"x\": [1.5, 2], \"y\": 3}\n{\"x\": [1, 2], \"y\": 4}\n")
	cases := []struct {
		err  error
		want string
	}{
		{table.ReadInt64("x", []int{0}, make([]int64, 2)), `line 1: column "x": a number that is not an integer, expected a column of integers`},
		{table.ReadFloat32("x", []int{0, 2}, make([]float32, 4)), `row 2 was asked for, the file has rows 0 to 1`},
		{table.ReadFloat32("x", []int{-1}, make([]float32, 2)), `row -1 was asked for`},
		{table.ReadFloat32("x", []int{0, 1}, make([]float32, 3)), `2 rows of a list of shape [2] are 4 elements, the destination has 3`},
		{table.ReadInt64("y", []int{0, 1}, make([]int64, 3)), `2 rows of a number are 2 elements, the destination has 3`},
	}
	for _, c := range cases {
		var te *data.TableError
		if !errors.As(c.err, &te) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v does not say %q", c.err, c.want)
		}
	}
}

func TestFilesThatAreNotJSONL(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	var keys strings.Builder
	for i := range 1<<16 + 1 {
		fmt.Fprintf(&keys, "{\"k%d\": 1}\n", i)
	}
	cases := []struct{ name, text, want string }{
		{"empty", "", "t.jsonl: the file has no rows"},
		{"blank", "\n \n", "the file has no rows"},
		{"cut in a string", "{\"v\": 1}\n{\"v\": \"ab", "line 2: byte 10: the line ends inside a string: the file may be cut"},
		{"cut in an escape", "{\"v\": \"ab\\", "the line ends inside a string"},
		{"cut in a list", "{\"v\": [1, 2", "line 1: byte 12: the line ends where a comma or ']' was expected: the file may be cut"},
		{"cut after a key", "{\"v\"", "ends where ':' was expected"},
		{"cut after a comma", "{\"v\": 1,", "ends where a key in quotes was expected"},
		{"cut in a number", "{\"v\": -", "ends where a digit was expected"},
		{"cut in a word", "{\"v\": tru", "'t' where a value was expected"},
		{"list of all rows", "[{\"v\": 1}]", "line 1: a list, expected an object: JSON Lines has one {…} on each line"},
		{"pretty-printed", "{\n \"v\": 1\n}", "line 1: byte 3: the line ends where a key"},
		{"two objects", "{\"v\": 1} {\"v\": 2}", "line 1: byte 10: '{' after the object"},
		{"CSV", "a,b\n1,2\n", "line 1: text that is not JSON, expected an object"},
		{"number", "17\n", "a number, expected an object"},
		{"leading zero", "{\"v\": 01}", "a number starts with 0"},
		{"bare point", "{\"v\": 1.}", "'}' where a digit after the point was expected"},
		{"bare exponent", "{\"v\": 1e+}", "where a digit of the exponent was expected"},
		{"plus", "{\"v\": +1}", "'+' where a value was expected"},
		{"two numbers", "{\"v\": 1 2}", "'2' where a comma or '}' was expected"},
		{"trailing comma", "{\"v\": [1,]}", "']' where a value was expected"},
		{"trailing comma in a skipped list", "{\"v\": [\"a\",]}", "']' where a value was expected"},
		{"single quotes", "{'v': 1}", "'\\'' where a key in quotes was expected"},
		{"control character", "{\"v\": \"a\tb\"}", "a control character (0x09) inside a string"},
		{"bad escape", "{\"v\": \"\\x41\"}", "\\x is not an escape of JSON"},
		{"bad unicode escape", "{\"v\": \"\\u12g4\"}", "four hexadecimal digits"},
		{"nested key", "{\"v\": {\"a\": {b: 1}}}", "'b' where a key in quotes was expected"},
		{"nested colon", "{\"v\": {\"a\" 1}}", "'1' where ':' was expected"},
		{"wrong bracket", "{\"v\": [{\"a\": 1]}", "']' where a comma or '}' was expected"},
		{"too deep", "{\"v\": {\"a\": " + deep + "}}", "nested deeper than 10000"},
		{"too many keys", keys.String(), "more than 65536 different keys in one file"},
		{"LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "a Git LFS pointer, not the data: fetch it with `git lfs pull`"},
		{"gzip", "\x1f\x8b\x08\x00", "compressed with gzip"},
		{"parquet", "PAR1\x15\x04", "a Parquet file"},
		{"UTF-16", "\xff\xfe{\x00", "text in UTF-16"},
		{"Latin-1", "{\"v\": 1}\n{\"é\": \"\xe9\"}", "line 2: byte 9: not UTF-8 text"},
		{"zeros", strings.Repeat("\x00", 100), "text that is not JSON"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := data.ReadJSONL(strings.NewReader(c.text), "t.jsonl")
			if _, ok := errors.AsType[*data.TableError](err); !ok {
				t.Fatalf("%v, expected a TableError", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q does not say %q", err, c.want)
			}
		})
	}
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	_, err := data.OpenJSONL(dir)
	var te *data.TableError
	if !errors.As(err, &te) || !strings.Contains(err.Error(), "not a regular file but a directory") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := data.OpenJSONL(os.DevNull); !errors.As(err, &te) {
		t.Errorf("a device: %v", err)
	}
	missing := filepath.Join(dir, "missing.jsonl")
	if _, err := data.OpenJSONL(missing); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestReadErrorIsPassedOn(t *testing.T) {
	broken := errors.New("the disk is gone")
	_, err := data.ReadJSONL(iotest.ErrReader(broken), "t.jsonl")
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "t.jsonl") {
		t.Errorf("%v", err)
	}
}

func TestTableIsSafeForManyReaders(t *testing.T) {
	table := open(t, "regression.jsonl")
	want := float32s(t, table, "x", allRows(table))
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			dst := make([]float32, len(want))
			if err := table.ReadFloat32("x", allRows(table), dst); err != nil || !slices.Equal(dst, want) {
				t.Errorf("%v, or other numbers", err)
			}
		})
	}
	readers.Wait()
}

// The caller may change the shape it was given.
func TestRowShapeIsACopy(t *testing.T) {
	table := read(t, `{"v": [1, 2]}`)
	shape, _, err := table.RowShape("v")
	if err != nil {
		t.Fatal(err)
	}
	shape[0] = 99
	if again, _, _ := table.RowShape("v"); again[0] != 2 {
		t.Errorf("the table's shape became %v", again)
	}
}

func FuzzReadJSONL(f *testing.F) {
	for _, name := range []string{"regression.jsonl", "digits-head.jsonl", "sums-head.jsonl"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw[:400])
	}
	for _, s := range []string{
		`{"a": [[1, 2.5], [-3e2, 0]], "b": "x\"\\", "c": {"d": [true, null]}}`,
		"{\"a\": 1}\n{\"a\": 99999999999999999999}\n", "{\"a\": []}\n{}\n", "{\"a\": 1, \"a\": 2}",
		`{"a": [1, [2]], "b": [[1], [2, 3]], "\u0061": 1}`, "\ufeff{}", "{\"a\": \"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		table, err := data.ReadJSONL(bytes.NewReader(raw), "fuzz")
		python := bytes.Contains(raw, []byte("NaN")) || bytes.Contains(raw, []byte("Infinity"))
		if err == nil && !python {
			compareWithJSON(t, table, bytes.TrimPrefix(raw, []byte("\ufeff")))
		}
		if err != nil && utf8.Valid(raw) && allObjects(raw) {
			t.Fatalf("encoding/json reads it, but: %v", err)
		}
	})
}

// allObjects reports whether every line is blank or an object for encoding/json,
// and there is one.
func allObjects(raw []byte) bool {
	some := false
	for line := range bytes.Lines(raw) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if !json.Valid(line) || line[0] != '{' {
			return false
		}
		some = true
	}
	return some
}

func ExampleOpenJSONL() {
	table, err := data.OpenJSONL("testdata/regression.jsonl")
	if err != nil {
		fmt.Println(err)
		return
	}
	shape, dtype, err := table.RowShape("y")
	fmt.Println(table.Len(), table.Columns(), shape, dtype, err)

	batch := make([]float32, 2)
	err = table.ReadFloat32("y", []int{22, 9}, batch)
	fmt.Println(batch, err)

	_, _, err = table.RowShape("label")
	fmt.Println(err)
	// Output:
	// 40 [x y] [1] float32 <nil>
	// [-0.027572 1.111914] <nil>
	// testdata/regression.jsonl: column "label": no such column; the file has "x", "y"
}

func BenchmarkReadJSONL(b *testing.B) {
	raw, err := os.ReadFile("testdata/digits-head.jsonl")
	if err != nil {
		b.Fatal(err)
	}
	text := bytes.Repeat(raw, 200)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := data.ReadJSONL(bytes.NewReader(text), "bench"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadFloat32(b *testing.B) {
	table := open(b, "digits-head.jsonl")
	rows := []int{3, 1, 4, 1, 5, 9, 2, 6}
	dst := make([]float32, len(rows)*64)
	b.ReportAllocs()
	for b.Loop() {
		if err := table.ReadFloat32("x", rows, dst); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(rows)), "ns/row")
}
