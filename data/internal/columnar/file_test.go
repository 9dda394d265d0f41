package columnar

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"rejoin/tensor"
)

func input(t testing.TB, name string) (Input, []byte) {
	t.Helper()
	raw, err := os.ReadFile("../../testdata/tables/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return Input{bytes.NewReader(raw), int64(len(raw))}, raw
}

func TestReadColumn(t *testing.T) {
	for name, open := range map[string]func(Input) (*File, error){
		"snappy.parquet": OpenParquet, "zstd.parquet": OpenParquet, "lz4.feather": OpenArrow, "plain.arrow": OpenArrow, "stream.arrows": OpenArrowStream,
	} {
		in, _ := input(t, name)
		f, err := open(in)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"x", "m", "label", "small", "weight", "flag", "text"}; f.Rows != 7 || !slices.Equal(f.Names, want) {
			t.Errorf("%s: %d rows of %q", name, f.Rows, f.Names)
		}
		c, err := f.ReadColumn(3)
		if err != nil || c.DType != tensor.Int8 || c.Rows != 7 || len(c.Content) != 7 || len(c.RowShape) != 0 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		if d, err := f.DType(6); err == nil {
			t.Errorf("%s: text is %v", name, d)
		}
		if !f.SameColumns(f) {
			t.Errorf("%s: is not as itself", name)
		}
	}
}

// Slices of arrays, as they lie in batches with an offset, keep their own rows.
func TestAppendSlices(t *testing.T) {
	b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int16)
	values := b.ValueBuilder().(*array.Int16Builder)
	for i := range int16(5) {
		b.Append(true)
		values.AppendValues([]int16{i, 10 * i}, nil)
	}
	whole := b.NewArray()
	var c Column
	for _, part := range [][2]int64{{1, 3}, {3, 3}, {4, 5}} {
		if err := c.append(array.NewSlice(whole, part[0], part[1])); err != nil {
			t.Fatal(err)
		}
	}
	var want []byte
	for _, v := range []uint16{1, 10, 2, 20, 4, 40} {
		want = binary.LittleEndian.AppendUint16(want, v)
	}
	if c.Rows != 3 || !slices.Equal(c.RowShape, []int{2}) || !bytes.Equal(c.Content, want) {
		t.Errorf("%+v", c)
	}
	other := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int16)
	other.Append(true)
	other.ValueBuilder().(*array.Int16Builder).Append(7)
	var row *RowError
	if err := c.append(other.NewArray()); !errors.As(err, &row) || row.Row != 3 {
		t.Errorf("a list of another length: %v", err)
	}
}

// Lengths that a message's description claims are checked before anything is sized
// by them.
func TestClaimsAreChecked(t *testing.T) {
	_, raw := input(t, "stream.arrows")
	refused := 0
	for at := 8; at+4 <= 1000; at += 4 { // the schema
		damaged := slices.Clone(raw)
		binary.LittleEndian.PutUint32(damaged[at:], 0x7fffffff)
		f, err := OpenArrowStream(Input{bytes.NewReader(damaged), int64(len(damaged))})
		if err != nil {
			refused++
			continue
		}
		for i := range f.Names {
			if c, err := f.ReadColumn(i); err == nil && c.Rows != f.Rows {
				t.Errorf("byte %d: %d of %d rows", at, c.Rows, f.Rows)
			}
		}
	}
	if refused == 0 {
		t.Error("no damage was noticed")
	}
}

func TestCutFiles(t *testing.T) {
	for name, open := range map[string]func(Input) (*File, error){
		"snappy.parquet": OpenParquet, "plain.arrow": OpenArrow, "stream.arrows": OpenArrowStream,
	} {
		_, raw := input(t, name)
		for at := 0; at < len(raw); at += 7 {
			if _, err := open(Input{bytes.NewReader(raw[:at]), int64(at)}); err == nil {
				t.Errorf("%s, cut at byte %d: no error", name, at)
			}
		}
	}
}

func TestAllocatorRefusesClaims(t *testing.T) {
	var err error
	func() {
		defer recoverTo(&err)
		newAllocator(100).Allocate(101)
	}()
	if !errors.Is(err, errBudget) || !strings.Contains(err.Error(), "more than 1024 times") {
		t.Errorf("%v", err)
	}
	if got := len(newAllocator(100).Allocate(100)); got != 100 {
		t.Errorf("%d bytes", got)
	}
	if budgetOf(1) != minBudget || budgetOf(1<<60) <= 0 {
		t.Error("budgets")
	}
}
