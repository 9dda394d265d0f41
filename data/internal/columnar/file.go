package columnar

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"rejoin/tensor"
)

// File is an open file. Its columns can be read by many goroutines while the
// reader under it is open.
type File struct {
	Rows   int
	Names  []string
	source source
	types  []arrow.DataType
	budget int64
}

// source gives the pieces of one column in order, to visit.
type source interface {
	column(i int, mem memory.Allocator, visit func(arrow.Array) error) error
}

// Input is what a file is read from.
type Input struct {
	io.ReaderAt
	Size int64
}

// part is the input from begin up to end.
func (in Input) part(begin, end int64) Input {
	return Input{io.NewSectionReader(in, begin, end-begin), end - begin}
}

func (in Input) section() *io.SectionReader { return io.NewSectionReader(in, 0, in.Size) }

// How much memory a file may take: this many times its own size, and this much
// however small it is. Real data do not compress further.
const (
	maxExpansion = 1024
	minBudget    = 64 << 20
)

// budgetOf is the bytes that one column of a file of size bytes may take.
func budgetOf(size int64) int64 {
	if size > math.MaxInt64/2/maxExpansion {
		return math.MaxInt64 / 2
	}
	return max(minBudget, size*maxExpansion)
}

var errBudget = errors.New("it claims to unpack to more than 1024 times the file's size: it is damaged")

// ReadColumn reads column i whole. It fails with a *[RowError] if one row is at fault.
func (f *File) ReadColumn(i int) (c *Column, err error) {
	defer recoverTo(&err)
	c = &Column{}
	if c.DType, err = elementOf(f.types[i]); err != nil {
		return nil, err
	}
	err = f.source.column(i, newAllocator(f.budget), func(a arrow.Array) error {
		if err := c.append(a); err != nil {
			return err
		}
		if int64(len(c.Content)) > f.budget {
			return errBudget
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c.Rows != f.Rows {
		return nil, fmt.Errorf("it has %d rows, the file says %d: it is damaged", c.Rows, f.Rows)
	}
	return c, nil
}

// DType is the type of the numbers of column i, or an error if it holds others.
func (f *File) DType(i int) (tensor.DType, error) { return elementOf(f.types[i]) }

// SameColumns reports whether f and g have columns of equal names and types.
func (f *File) SameColumns(g *File) bool {
	return slices.Equal(f.Names, g.Names) && slices.EqualFunc(f.types, g.types, func(a, b arrow.DataType) bool { return arrow.TypeEqual(a, b) })
}

func (f *File) setSchema(s *arrow.Schema) {
	for _, field := range s.Fields() {
		f.Names = append(f.Names, field.Name)
		f.types = append(f.types, field.Type)
	}
}

// recoverTo turns a panic of the Arrow library, which trusts what a file says in
// many places, into an error.
func recoverTo(err *error) {
	switch p := recover().(type) {
	case nil:
	case error:
		*err = fmt.Errorf("it is damaged: %w", p)
	default:
		*err = fmt.Errorf("it is damaged: %v", p)
	}
}

// allocator refuses allocations beyond a budget before they are made: a file may
// claim any size.
type allocator struct {
	memory.Allocator
	limit int64
}

func newAllocator(limit int64) allocator {
	return allocator{memory.NewGoAllocator(), limit}
}

func (a allocator) Allocate(size int) []byte {
	a.check(size)
	return a.Allocator.Allocate(size)
}

func (a allocator) Reallocate(size int, b []byte) []byte {
	a.check(size)
	return a.Allocator.Reallocate(size, b)
}

func (a allocator) check(size int) {
	if size < 0 || int64(size) > a.limit {
		panic(errBudget)
	}
}
