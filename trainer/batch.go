package trainer

import (
	"errors"
	"fmt"
	"slices"

	"rejoin/data"
	"rejoin/model"
	"rejoin/tensor"
)

// batches are the buffers that rows are gathered into, one micro-batch at a time.
type batches struct {
	input   []float32
	target  []float32 // mean squared error: rows of the output's width
	class   []int64   // cross entropy: one class a row
	inWidth int
	outSize int // target elements of a row; 0 for classes
}

// ColumnError reports a data column that does not fit the model.
type ColumnError struct {
	Column          string
	Found, Expected string
}

func (e *ColumnError) Error() string {
	return fmt.Sprintf("data column %q: found %s in a row, expected %s for this model", e.Column, e.Found, e.Expected)
}

// newBatches compares the table's columns with what the model takes in, and
// makes the buffers for batches of up to maxRows rows.
func newBatches(table *data.Table, spec *model.Spec, maxRows int) (batches, error) {
	in, out := spec.InputSize(), spec.OutputSize()
	shape, dtype, err := table.RowShape(spec.Input())
	if err != nil {
		return batches{}, err
	}
	if !slices.Equal(shape, []int{in}) {
		return batches{}, &ColumnError{spec.Input(), describeRow(shape, dtype), fmt.Sprintf("%d numbers", in)}
	}
	b := batches{input: tensor.AlignedFloat32(maxRows * in), inWidth: in}
	shape, dtype, err = table.RowShape(spec.Target())
	switch {
	case err != nil:
		return batches{}, err
	case spec.Loss() == model.CrossEntropy && (len(shape) != 0 || dtype != tensor.Int64):
		return batches{}, &ColumnError{spec.Target(), describeRow(shape, dtype), fmt.Sprintf("one class number from 0 to %d", out-1)}
	case spec.Loss() == model.CrossEntropy:
		b.class = make([]int64, maxRows)
	case !slices.Equal(shape, []int{out}):
		return batches{}, &ColumnError{spec.Target(), describeRow(shape, dtype), listOf(out)}
	default:
		b.outSize = out
		b.target = tensor.AlignedFloat32(maxRows * out)
	}
	return b, nil
}

// listOf spells a row of n numbers, which JSON writes as a list even if n is 1.
func listOf(n int) string {
	if n == 1 {
		return "a list of 1 number, as in [1.5]"
	}
	return fmt.Sprintf("a list of %d numbers", n)
}

func describeRow(shape []int, dtype tensor.DType) string {
	if len(shape) == 0 {
		return fmt.Sprintf("one %v", dtype)
	}
	return fmt.Sprintf("%v of shape %v", dtype, shape)
}

// read gathers rows; what it returns is valid until the next call.
func (b *batches) read(table *data.Table, spec *model.Spec, rows []int) (model.Batch, error) {
	batch := model.Batch{Rows: len(rows), Input: b.input[:len(rows)*b.inWidth]}
	if err := table.ReadFloat32(spec.Input(), rows, batch.Input); err != nil {
		return batch, err
	}
	if b.class != nil {
		batch.Class = b.class[:len(rows)]
		return batch, table.ReadInt64(spec.Target(), rows, batch.Class)
	}
	batch.Target = b.target[:len(rows)*b.outSize]
	return batch, table.ReadFloat32(spec.Target(), rows, batch.Target)
}

// batch gathers rows to train on; what it returns is valid until the next call.
func (r *run) batch(rows []int) (model.Batch, error) {
	return r.batches.read(r.table, r.spec, rows)
}

// RowError says which row of the data a batch's error is about.
type RowError struct {
	Row int // of the data, from 0
	Err error
}

func (e *RowError) Error() string {
	return fmt.Sprintf("row %d of the data (counted from 0): %v", e.Row, e.Err)
}
func (e *RowError) Unwrap() error { return e.Err }

// nameRow adds the data's row to an error about a row of the batch.
func nameRow(err error, rows []int) error {
	if class := (*model.ClassError)(nil); errors.As(err, &class) && class.Row < len(rows) {
		return &RowError{Row: rows[class.Row], Err: err}
	}
	return err
}
