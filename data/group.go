package data

import (
	"strconv"

	"rejoin/tensor"
)

// group are the columns x0, x1 … of single numbers read as one column of lists, as
// a flat file holds them.
type group struct {
	parts   []values
	isFloat bool
}

// numbered finds the columns name0, name1 …, name_0 … or name.0 …, counted from 0
// without a gap; nil if there are none.
func (t *Table) numbered(name string) []*column {
	for _, separator := range []string{"", "_", "."} {
		var parts []*column
		for {
			c, ok := t.byName[name+separator+strconv.Itoa(len(parts))]
			if !ok {
				break
			}
			parts = append(parts, c)
		}
		if parts != nil {
			return parts
		}
	}
	return nil
}

func newGroup(columns []*column) (*group, *TableError) {
	g := &group{parts: make([]values, len(columns))}
	for i, c := range columns {
		v, err := c.get()
		if err != nil {
			e := *err
			e.Column = c.name
			return nil, &e
		}
		if len(v.shape()) != 0 {
			return nil, &TableError{Column: c.name, Problem: describeShape(v.shape()) + ", expected a number in a numbered column"}
		}
		g.parts[i] = v
		g.isFloat = g.isFloat || v.dtype() == tensor.Float32
	}
	return g, nil
}

func (g *group) shape() []int { return []int{len(g.parts)} }

func (g *group) dtype() tensor.DType {
	if g.isFloat {
		return tensor.Float32
	}
	return tensor.Int64
}

func (g *group) float32s(rows []int, dst []float32) *TableError {
	return gather(g.parts, rows, dst, values.float32s)
}

func (g *group) int64s(rows []int, dst []int64) *TableError {
	return gather(g.parts, rows, dst, values.int64s)
}

// gather puts the rows of single-number columns side by side.
func gather[T float32 | int64](parts []values, rows []int, dst []T, read func(values, []int, []T) *TableError) *TableError {
	one := make([]T, len(rows))
	for i, part := range parts {
		if err := read(part, rows, one); err != nil {
			return err
		}
		for j, v := range one {
			dst[j*len(parts)+i] = v
		}
	}
	return nil
}
