package columnar

import (
	"context"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// How many rows of a Parquet file are decoded at a time.
const parquetBatch = 8192

type parquetSource struct {
	in   Input
	rows int
}

// OpenParquet reads a Parquet file's footer.
func OpenParquet(in Input) (f *File, err error) {
	defer recoverTo(&err)
	f = &File{budget: budgetOf(in.Size)}
	src := &parquetSource{in: in}
	r, err := src.open(newAllocator(f.budget))
	if err != nil {
		return nil, err
	}
	schema, err := r.Schema()
	if err != nil {
		return nil, err
	}
	f.setSchema(schema)
	rows := r.ParquetReader().NumRows()
	if rows < 0 || rows > math.MaxInt {
		return nil, fmt.Errorf("it says that it has %d rows", rows)
	}
	f.Rows, src.rows = int(rows), int(rows)
	f.source = src
	return f, nil
}

func (s *parquetSource) open(mem memory.Allocator) (*pqarrow.FileReader, error) {
	r, err := file.NewParquetReader(s.in.section(), file.WithReadProps(parquet.NewReaderProperties(mem)))
	if err != nil {
		return nil, err
	}
	return pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{BatchSize: parquetBatch}, mem)
}

// column reads the pages of one column, and no others.
func (s *parquetSource) column(i int, mem memory.Allocator, visit func(arrow.Array) error) error {
	r, err := s.open(mem)
	if err != nil {
		return err
	}
	groups := make([]int, r.ParquetReader().NumRowGroups())
	for g := range groups {
		groups[g] = g
	}
	column, err := r.GetFieldReader(context.Background(), i, leavesOf(r.Manifest.Fields[i:i+1], map[int]bool{}), groups)
	if err != nil {
		return err
	}
	defer column.Release()
	for done := 0; done < s.rows; {
		chunks, err := column.NextBatch(int64(min(parquetBatch, s.rows-done)))
		if err != nil {
			return err
		}
		n, err := visitChunks(chunks, visit)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		done += n
	}
	return nil
}

// visitChunks visits and releases chunks, and counts their rows.
func visitChunks(chunks *arrow.Chunked, visit func(arrow.Array) error) (rows int, err error) {
	defer chunks.Release()
	for _, chunk := range chunks.Chunks() {
		if err := visit(chunk); err != nil {
			return rows, err
		}
		rows += chunk.Len()
	}
	return rows, nil
}

// leavesOf collects the numbers of the Parquet columns that fields are made of.
func leavesOf(fields []pqarrow.SchemaField, to map[int]bool) map[int]bool {
	for _, f := range fields {
		if f.IsLeaf() {
			to[f.ColIndex] = true
		}
		leavesOf(f.Children, to)
	}
	return to
}
