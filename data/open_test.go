package data_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/data"
)

// expected gives the columns of testdata/tables, by name and row.
func expected(t testing.TB) map[string][][]float64 {
	t.Helper()
	raw, err := os.ReadFile("testdata/tables/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var columns map[string][][]float64
	if err := json.Unmarshal(raw, &columns); err != nil {
		t.Fatal(err)
	}
	return columns
}

func openAny(t testing.TB, path string) *data.Table {
	t.Helper()
	table, err := data.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	return table
}

// The same table in every format, written by pandas, pyarrow, datasets, numpy and
// safetensors: "column as: dtype[shape]", as names the column where it differs.
func TestOpenEveryFormat(t *testing.T) {
	all := []string{"x: float32[3]", "m: float32[2 2]", "label: int64[]", "small: int64[]", "weight: float32[]", "flag: int64[]"}
	for file, columns := range map[string][]string{
		"snappy.parquet":      all,
		"zstd.parquet":        all,
		"gzip.parquet":        all,
		"lz4.feather":         all,
		"plain.arrow":         all,
		"stream.arrows":       all,
		"saved":               all,
		"plain.npz":           all,
		"packed.npz":          all,
		"columns.safetensors": all,
		"pandas.parquet":      {"x: float32[3]", "label: int64[]", "small: int64[]", "weight: float32[]", "flag: int64[]"},
		"pandas.csv":          {"x: float32[3]", "label: int64[]", "small: int64[]", "weight: float32[]", "flag: int64[]"},
		"index.tsv":           {"x: float32[3]", "label: int64[]", "weight: float32[]"},
		"lists.csv":           {"x: float32[3]", "m: float32[2 2]", "label: int64[]"},
		"x.npy":               {"x arr_0: float32[3]"},
		"fortran.npy":         {"m arr_0: float32[2 2]"},
		"big-endian.npy":      {"label arr_0: int64[]"},
		"record.npy":          {"x: float32[3]", "m: float32[2 2]", "label: int64[]", "small: int64[]", "flag: int64[]"},
		"large.arrow":         {"label: int64[]"},
	} {
		t.Run(file, func(t *testing.T) {
			table := openAny(t, filepath.Join("testdata/tables", file))
			if table.Len() != 7 || len(table.Digest()) != 64 {
				t.Fatalf("%d rows, digest %q", table.Len(), table.Digest())
			}
			for _, c := range columns {
				names, want, _ := strings.Cut(c, ": ")
				in, as, renamed := strings.Cut(names, " ")
				if !renamed {
					as = in
				}
				compareColumn(t, table, as, want, expected(t)[in])
			}
		})
	}
}

// compareColumn reads rows in another order than the file's, and one twice.
func compareColumn(t *testing.T, table *data.Table, column, kind string, want [][]float64) {
	t.Helper()
	shape, dtype, err := table.RowShape(column)
	if got := fmt.Sprintf("%v%v", dtype, shape); err != nil || got != kind {
		t.Fatalf("column %s: %s, %v, expected %s", column, got, err, kind)
	}
	rows := []int{6, 0, 3, 3, 5, 1, 2, 4}
	var floats []float32
	var ints []int64
	for _, row := range rows {
		for _, v := range want[row] {
			floats, ints = append(floats, float32(v)), append(ints, int64(v))
		}
	}
	if got := float32s(t, table, column, rows); !slices.Equal(got, floats) {
		t.Errorf("column %s: %v, expected %v", column, got, floats)
	}
	got := make([]int64, len(ints))
	err = table.ReadInt64(column, rows, got)
	if strings.HasPrefix(kind, "int64") && (err != nil || !slices.Equal(got, ints)) {
		t.Errorf("column %s: %v, %v, expected %v", column, got, err, ints)
	}
	if strings.HasPrefix(kind, "float32") {
		wantTableError(t, err, column, "expected a column of integers")
	}
}

func wantTableError(t testing.TB, err error, words ...string) {
	t.Helper()
	var te *data.TableError
	if !errors.As(err, &te) || te.Path == "" {
		t.Errorf("%v (%T), expected a TableError with a path", err, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestHalfPrecisionColumns(t *testing.T) {
	want := expected(t)["x"]
	for file, columns := range map[string]map[string]float64{
		"columns.safetensors": {"half": 0x1p-10, "brain": 0x1p-7},
		"large.arrow":         {"x": 0x1p-10},
	} {
		table := openAny(t, filepath.Join("testdata/tables", file))
		for name, eps := range columns {
			for i, got := range float32s(t, table, name, []int{4}) {
				if v := want[4][i]; float64(got) < v-eps*abs(v) || float64(got) > v+eps*abs(v) {
					t.Errorf("%s, %s: %v, expected %v", file, name, got, v)
				}
			}
		}
	}
}

func abs(v float64) float64 { return max(v, -v) }

// Columns that are no numbers are errors when asked for, and not before.
func TestColumnsThatAreNoNumbers(t *testing.T) {
	for _, c := range []struct{ file, column, problem string }{
		{"snappy.parquet", "text", "utf8, expected numbers"},
		{"stream.arrows", "text", "utf8, expected numbers"},
		{"saved", "text", "utf8, expected numbers"},
		{"pandas.csv", "text", `line 2: column "text": "row 0, \"quoted\"", expected a number`},
		{"packed.npz", "names", "text (<U15)"},
		{"record.npy", "name", "text (<U3)"},
		{"bad.parquet", "holes", "row 1: a value is missing"},
		{"bad.feather", "holes", "row 1: a value is missing"},
		{"bad.parquet", "lists", "row 1: a list is missing"},
		{"bad.feather", "lists", "row 1: a list is missing"},
		{"bad.parquet", "inner", "row 1: a value is missing"},
		{"bad.parquet", "ragged", "row 1: a list of 2 elements, expected 1"},
		{"bad.feather", "ragged", "row 1: a list of 2 elements, expected 1"},
		{"bad.parquet", "empty", "row 0: an empty list"},
		{"bad.feather", "words", "utf8, expected numbers"},
		{"bad.feather", "nosuch", `no such column; the file has "holes", "lists"`},
	} {
		table := openAny(t, filepath.Join("testdata/tables", c.file))
		_, _, err := table.RowShape(c.column)
		wantTableError(t, err, c.file, c.column, c.problem)
		if slices.Contains(table.Columns(), "ok") {
			if got := int64s(t, table, "ok", []int{2, 0}); !slices.Equal(got, []int64{3, 1}) {
				t.Errorf("%s: the column beside it is %v", c.file, got)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ content, problem string }{
		"git lfs":      {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
		"gzip":         {"\x1f\x8b\x08\x00", "compressed with gzip"},
		"pickle":       {"\x80\x04\x95", "a Python pickle"},
		"web page":     {"<!DOCTYPE html>", "a web page may have been saved"},
		"zeros":        {strings.Repeat("\x00", 100), "none of the formats"},
		"feather 1":    {"FEA1\x00\x00\x00\x00", "Feather file of version 1"},
		"empty":        {"", "no rows"},
		"json array":   {`[{"x": 1}]`, "expected an object"},
		"zip":          {"PK\x05\x06" + strings.Repeat("\x00", 18), "no rows"},
		"cut zip":      {"PK\x03\x04abc", "damaged or cut zip archive"},
		"cut npy":      {"\x93NUMPY\x01\x00\x76\x00{'descr': ", "it is cut"},
		"cut arrow":    {"ARROW1\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00", ""},
		"cut stream":   {"\xff\xff\xff\xff\x10\x00\x00\x00abc", "no end marker"},
		"cut parquet":  {"PAR1\x15\x04", ""},
		"utf-16":       {"\xff\xfex\x00,\x00y\x00", "UTF-16"},
		"empty header": {"a,b\n", "no rows"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := data.Open(path)
		wantTableError(t, err, path, c.problem)
	}
	_, err := data.Open("testdata/tables/objects.npy")
	wantTableError(t, err, "Python objects")
	_, err = data.Open(filepath.Join(dir, "nosuch"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestOpenSavedDirectories(t *testing.T) {
	table := openAny(t, "testdata/tables/saved-splits/train")
	if table.Len() != 2 {
		t.Errorf("%d rows", table.Len())
	}
	_, err := data.Open("testdata/tables/saved-splits")
	wantTableError(t, err, "splits train, test", filepath.Join("saved-splits", "train"))
	_, err = data.Open("testdata/tables")
	wantTableError(t, err, "without state.json", "bad.feather")
	_, err = data.Open(t.TempDir())
	wantTableError(t, err, "without state.json")
}

func TestSavedDirectoryErrors(t *testing.T) {
	for _, c := range []struct {
		name, state string
		problem     []string
	}{
		{"missing shard", `{"_data_files": [{"filename": "data-1.arrow"}]}`, []string{"data-1.arrow", "is missing"}},
		{"outside", `{"_data_files": [{"filename": "../data.arrow"}]}`, []string{`"../data.arrow"`, "in the directory"}},
		{"no files", `{"_data_files": []}`, []string{"no rows"}},
		{"no JSON", `{`, []string{"state.json", "unexpected end"}},
		{"no Arrow", `{"_data_files": [{"filename": "state.json"}]}`, []string{"not an Arrow file"}},
		{"other columns", `{"_data_files": [{"filename": "a.arrow"}, {"filename": "b.arrow"}]}`, []string{"b.arrow has other columns than a.arrow"}},
	} {
		dir := t.TempDir()
		copyFile(t, "testdata/tables/stream.arrows", filepath.Join(dir, "a.arrow"))
		copyFile(t, "testdata/tables/saved/data-00000-of-00002.arrow", filepath.Join(dir, "b.arrow"))
		if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte(c.state), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := data.Open(dir)
		wantTableError(t, err, c.problem...)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The digest of a saved dataset is of its data, in their order, and nothing else.
func TestSavedDigest(t *testing.T) {
	was := openAny(t, "testdata/tables/saved").Digest()
	dir := t.TempDir()
	for _, name := range []string{"data-00000-of-00002.arrow", "data-00001-of-00002.arrow", "state.json"} {
		copyFile(t, filepath.Join("testdata/tables/saved", name), filepath.Join(dir, name))
	}
	if got := openAny(t, dir).Digest(); got != was {
		t.Errorf("a copy without dataset_info.json has digest %s, expected %s", got, was)
	}
	state := `{"_data_files": [{"filename": "data-00001-of-00002.arrow"}, {"filename": "data-00000-of-00002.arrow"}]}`
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	if openAny(t, dir).Digest() == was {
		t.Error("another order of the files has the same digest")
	}
}

// A file that shrinks while it is open gives an error that names the row.
func TestFileThatShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	copyFile(t, "testdata/tables/x.npy", path)
	table := openAny(t, path)
	if err := os.Truncate(path, 150); err != nil {
		t.Fatal(err)
	}
	wantTableError(t, table.ReadFloat32("arr_0", []int{0, 6}, make([]float32, 6)), "row 6 cannot be read any more")
}

func ExampleOpen() {
	table, err := data.Open("testdata/tables/pandas.parquet")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer table.Close()
	shape, dtype, err := table.RowShape("x") // the columns x0, x1 and x2
	fmt.Println(table.Len(), "rows,", shape, dtype, err)
	label := make([]int64, 2)
	fmt.Println(table.ReadInt64("label", []int{5, 1}, label), label)
	// Output:
	// 7 rows, [3] float32 <nil>
	// <nil> [0 3]
}

// Each file damaged in every byte and cut at every length: an error or a table that
// can be read, and no panic.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"snappy.parquet", "zstd.parquet", "lz4.feather", "stream.arrows", "packed.npz", "record.npy", "columns.safetensors", "lists.csv"} {
		whole, err := os.ReadFile(filepath.Join("testdata/tables", name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		step := max(1, len(whole)/200)
		for at := 0; at < len(whole); at += step {
			cut := whole[:at]
			flipped := slices.Clone(whole)
			flipped[at] ^= 0xff
			for _, content := range [][]byte{cut, flipped} {
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
				readAll(path)
			}
		}
	}
}

// readAll reads whatever can be read.
func readAll(path string) {
	table, err := data.Open(path)
	if err != nil {
		return
	}
	defer table.Close()
	for _, column := range table.Columns() {
		shape, _, err := table.RowShape(column)
		if err == nil && table.Len()*elements(shape) < 1<<20 {
			table.ReadFloat32(column, allRows(table), make([]float32, table.Len()*elements(shape)))
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, name := range []string{"snappy.parquet", "zstd.parquet", "lz4.feather", "stream.arrows", "packed.npz", "plain.npz", "record.npy", "fortran.npy", "columns.safetensors", "lists.csv", "pandas.csv"} {
		content, err := os.ReadFile(filepath.Join("testdata/tables", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		readAll(path)
	})
}
