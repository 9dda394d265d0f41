package data_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"rejoin/data"
)

func readCSV(t testing.TB, text string) *data.Table {
	t.Helper()
	table, err := data.ReadCSV(strings.NewReader(text), "t.csv")
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestCSVNumbers(t *testing.T) {
	for cell, want := range map[string]float64{
		"1": 1, "-7": -7, "+3": 3, "007": 7, "1.5": 1.5, ".5": 0.5, "5.": 5, "1e-3": 1e-3, "-2.5E+2": -250,
		"inf": math.Inf(1), "-inf": math.Inf(-1), "Infinity": math.Inf(1), "1e999": math.Inf(1), " 4 ": 4,
		"True": 1, "false": 0, "16777217.0": 16777216,
	} {
		table := readCSV(t, "a,b\n"+cell+",0\n")
		if got := float32s(t, table, "a", []int{0}); got[0] != float32(want) {
			t.Errorf("%q: %v, expected %v", cell, got[0], want)
		}
	}
	if got := float32s(t, readCSV(t, "a\nnan\n"), "a", []int{0}); got[0] == got[0] {
		t.Errorf("nan: %v", got)
	}
	for _, cell := range []string{"0x10", "1_000", "x", "1,5", "--1", "+-1", "1-2", "e5", "0x1p3", "-", "+", "None", "1e5_0"} {
		_, _, err := readCSV(t, fmt.Sprintf("a,b\n%q,0\n", cell)).RowShape("a")
		wantTableError(t, err, "line 2", `column "a"`, "expected a number")
	}
}

func TestCSVLayouts(t *testing.T) {
	for name, text := range map[string]string{
		"commas":     "a,b\n1,2\n3,4\n",
		"no newline": "a,b\n1,2\n3,4",
		"crlf":       "a,b\r\n1,2\r\n3,4\r\n",
		"semicolons": "a;b\n1;2\n3;4\n",
		"tabs":       "a\tb\n1\t2\n3\t4\n",
		"bom":        "\ufeffa,b\n1,2\n3,4\n",
		"quotes":     "\"a\",\"b\"\n\"1\",2\n3,\"4\"\n",
		"blank line": "a,b\n1,2\n\n3,4\n",
		"lists":      "a,b,c\n1,2,\"[[1, 2], [3, 4.5]]\"\n3,4,\"[[5, 6], [7, 8]]\"\n",
		"long text":  "a,b,c\n1,2,\"x\ny\"\"z\"\n3,4,w\n",
	} {
		table := readCSV(t, text)
		if got := int64s(t, table, "b", []int{1, 0}); !slices.Equal(got, []int64{4, 2}) {
			t.Errorf("%s: %v", name, got)
		}
		if name == "lists" {
			if got := float32s(t, table, "c", []int{0}); !slices.Equal(got, []float32{1, 2, 3, 4.5}) {
				t.Errorf("list cell: %v", got)
			}
		}
	}
}

func TestCSVRefuses(t *testing.T) {
	for text, problem := range map[string]string{
		"a,b\n1,2\n3\n":        "line 3: not as many cells",
		"a,b\n1,2,3\n":         "line 2: not as many cells",
		"a,a\n1,2\n":           `line 1: column "a": the first line has this name twice`,
		"1,2.5\n3,4\n":         "line 1: the first line has numbers only",
		"a,b\n\"1,2\n":         "line 2: character 6: extraneous or missing \" in quoted-field",
		"a,b\n1,\"2\"3\n":      "line 2: character 5",
		"a,b\n1,\xff\n":        "line 2: character 3: a cell that is not UTF-8",
		"a,b\n":                "no rows",
		"PAR1,b\n":             "a Parquet file; expected CSV",
		"\x1f\x8b\x08":         "compressed with gzip",
		"\xff\xfea\x00,\x00b3": "UTF-16",
	} {
		_, err := data.ReadCSV(strings.NewReader(text), "t.csv")
		wantTableError(t, err, "t.csv", problem)
	}
	broken := errors.New("broken")
	_, err := data.ReadCSV(io.MultiReader(strings.NewReader("a,b\n1,2\n"), iotest.ErrReader(broken)), "t.csv")
	if !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
}

// What is wrong with a column is said when it is asked for; others are read.
func TestCSVColumnErrors(t *testing.T) {
	table := readCSV(t, `ok,empty,text,ragged,mixed,list,tail,wide
1,1,1,"[1, 2]",1,"[1 2]","[1] x",99999999999999999999
2,,one,[3],[2],"[3 4]","[2]",1
`)
	for column, problem := range map[string]string{
		"empty":  "line 3: column \"empty\": an empty cell",
		"text":   `line 3: column "text": "one", expected a number`,
		"ragged": "line 3: column \"ragged\": a list of shape [1], expected a list of shape [2] as on line 2",
		"mixed":  "line 3: column \"mixed\": a list of shape [1], expected a number as on line 2",
		"list":   "line 2: column \"list\": a list that is not in JSON's notation",
		"tail":   "line 2: column \"tail\": a list that is not in JSON's notation",
		"wide":   "line 2: column \"wide\": the integer 99999999999999999999 does not fit",
		"nosuch": "no such column",
	} {
		_, _, err := table.RowShape(column)
		wantTableError(t, err, problem)
	}
	if got := int64s(t, table, "ok", []int{1}); got[0] != 2 {
		t.Errorf("%v", got)
	}
}

func TestNumberedColumns(t *testing.T) {
	table := readCSV(t, "x0,x1,x2,y_0,y_1,z.0,z.2,w0,w1,v0,v1\n1,2,3.5,4,5,6,7,8,[9],1,no\n10,20,30,40,50,60,70,80,[90],2,3\n")
	if got := float32s(t, table, "x", []int{1, 0}); !slices.Equal(got, []float32{10, 20, 30, 1, 2, 3.5}) {
		t.Errorf("x: %v", got)
	}
	if got := int64s(t, table, "y", []int{0, 1}); !slices.Equal(got, []int64{4, 5, 40, 50}) {
		t.Errorf("y: %v", got)
	}
	if shape, _, err := table.RowShape("z"); err != nil || !slices.Equal(shape, []int{1}) { // z.1 is missing
		t.Errorf("z: %v, %v", shape, err)
	}
	_, _, err := table.RowShape("w")
	wantTableError(t, err, `column "w1"`, "expected a number in a numbered column")
	_, _, err = table.RowShape("v")
	wantTableError(t, err, `line 2: column "v1"`, `"no", expected a number`)
	wantTableError(t, table.ReadInt64("x", []int{0}, make([]int64, 3)), `column "x"`, "a number that is not an integer")
}

func BenchmarkCSV(b *testing.B) {
	var text strings.Builder
	text.WriteString("a,b,c,d\n")
	for i := range 20_000 {
		fmt.Fprintf(&text, "%d,%g,%g,%d\n", i, float64(i)/7, float64(i)*1e-5, i%10)
	}
	for b.Loop() {
		if _, err := data.ReadCSV(strings.NewReader(text.String()), "b.csv"); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(text.Len()))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20_000, "ns/row")
}
