package columnar

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"rejoin/tensor"
)

// Column is a column of numbers in memory.
type Column struct {
	Rows     int
	RowShape []int // empty for single numbers
	DType    tensor.DType
	Content  []byte // rows in C order, little-endian
}

// RowError says which row of a column cannot be read.
type RowError struct {
	Row     int
	Problem string
}

func (e *RowError) Error() string { return fmt.Sprintf("row %d: %s", e.Row, e.Problem) }

// part is a piece of a column while its lists are opened: some rows' values, per
// of them in each row.
type part struct {
	firstRow int
	per      int
	shape    []int
}

func (p part) fail(element int, format string, args ...any) error {
	return &RowError{Row: p.firstRow + element/max(p.per, 1), Problem: fmt.Sprintf(format, args...)}
}

// append adds the rows of an array, whose type elementOf knows.
func (c *Column) append(a arrow.Array) error {
	if a.Len() == 0 {
		return nil
	}
	p := part{firstRow: c.Rows, per: 1, shape: []int{}}
	leaf, err := p.open(a)
	if err != nil {
		return err
	}
	switch {
	case c.Rows == 0:
		c.RowShape = p.shape
	case !slices.Equal(c.RowShape, p.shape):
		return p.fail(0, "lists of shape %v, expected %v as in row 0", p.shape, c.RowShape)
	}
	if leaf.NullN() > 0 {
		for i := range leaf.Len() {
			if leaf.IsNull(i) {
				return p.fail(i, "a value is missing (null)")
			}
		}
	}
	if want := a.Len() * p.per; leaf.Len() != want {
		return p.fail(0, "%d numbers, expected %d: the file is damaged", leaf.Len(), want)
	}
	c.Rows += a.Len()
	return c.appendLeaf(leaf)
}

// open goes down the lists of an array, all of one length at each depth, to its
// numbers.
func (p *part) open(a arrow.Array) (arrow.Array, error) {
	for {
		if ext, ok := a.(array.ExtensionArray); ok {
			a = ext.Storage()
			continue
		}
		list, ok := a.(array.ListLike)
		if !ok {
			return a, nil
		}
		inner, err := p.openList(list)
		if err != nil {
			return nil, err
		}
		a = inner // on the Go heap: nothing is to be released
	}
}

func (p *part) openList(list array.ListLike) (arrow.Array, error) {
	n := -1
	var begin, end int64
	for i := range list.Len() {
		if list.IsNull(i) {
			return nil, p.fail(i, "a list is missing (null)")
		}
		from, to := list.ValueOffsets(i)
		switch size := int(to - from); {
		case i == 0:
			begin, end, n = from, to, size
		case size != n:
			return nil, p.fail(i, "a list of %d elements, expected %d as before it", size, n)
		case from != end:
			return nil, p.fail(i, "its list does not follow the one before: this layout is not read")
		default:
			end = to
		}
	}
	values := list.ListValues()
	switch {
	case n == 0:
		return nil, p.fail(0, "an empty list, expected numbers")
	case n < 0 || begin < 0 || end < begin || end > int64(values.Len()):
		return nil, p.fail(0, "lists that lie outside of the column's values: the file is damaged")
	}
	p.shape = append(p.shape, n)
	p.per *= n
	return array.NewSlice(values, begin, end), nil
}

func (c *Column) appendLeaf(a arrow.Array) (err error) {
	le := binary.LittleEndian
	switch a := a.(type) {
	case *array.Boolean:
		for i := range a.Len() {
			b := byte(0)
			if a.Value(i) {
				b = 1
			}
			c.Content = append(c.Content, b)
		}
	case *array.Float16:
		for i := range a.Len() {
			c.Content = le.AppendUint16(c.Content, a.Value(i).Uint16())
		}
	case *array.Int8:
		c.Content, err = binary.Append(c.Content, le, a.Int8Values())
	case *array.Int16:
		c.Content, err = binary.Append(c.Content, le, a.Int16Values())
	case *array.Int32:
		c.Content, err = binary.Append(c.Content, le, a.Int32Values())
	case *array.Int64:
		c.Content, err = binary.Append(c.Content, le, a.Int64Values())
	case *array.Uint8:
		c.Content, err = binary.Append(c.Content, le, a.Uint8Values())
	case *array.Uint16:
		c.Content, err = binary.Append(c.Content, le, a.Uint16Values())
	case *array.Uint32:
		c.Content, err = binary.Append(c.Content, le, a.Uint32Values())
	case *array.Uint64:
		c.Content, err = binary.Append(c.Content, le, a.Uint64Values())
	case *array.Float32:
		c.Content, err = binary.Append(c.Content, le, a.Float32Values())
	case *array.Float64:
		c.Content, err = binary.Append(c.Content, le, a.Float64Values())
	default:
		err = fmt.Errorf("%v, expected numbers or lists of numbers", a.DataType())
	}
	return err
}

var dtypes = map[arrow.Type]tensor.DType{
	arrow.BOOL: tensor.Bool, arrow.INT8: tensor.Int8, arrow.INT16: tensor.Int16, arrow.INT32: tensor.Int32,
	arrow.INT64: tensor.Int64, arrow.UINT8: tensor.UInt8, arrow.UINT16: tensor.UInt16, arrow.UINT32: tensor.UInt32,
	arrow.UINT64: tensor.UInt64, arrow.FLOAT16: tensor.Float16, arrow.FLOAT32: tensor.Float32, arrow.FLOAT64: tensor.Float64,
}

// elementOf is the type of a column's numbers, down its lists.
func elementOf(t arrow.DataType) (tensor.DType, error) {
	for at := t; ; {
		switch inner := at.(type) {
		case arrow.ExtensionType:
			at = inner.StorageType()
		case *arrow.ListType:
			at = inner.Elem()
		case *arrow.LargeListType:
			at = inner.Elem()
		case *arrow.FixedSizeListType:
			at = inner.Elem()
		default:
			if d, ok := dtypes[at.ID()]; ok {
				return d, nil
			}
			return tensor.Invalid, fmt.Errorf("%v, expected numbers or lists of numbers", t)
		}
	}
}
