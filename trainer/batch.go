package trainer

import (
	"fmt"
	"slices"

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

// checkColumns compares the data's columns with what the model takes in, and
// makes the buffers for a micro-batch of up to maxRows rows.
func (r *run) checkColumns(maxRows int) error {
	in, out := r.spec.InputSize(), r.spec.OutputSize()
	shape, dtype, err := r.table.RowShape(r.spec.Input())
	if err != nil {
		return err
	}
	if !slices.Equal(shape, []int{in}) {
		return &ColumnError{r.spec.Input(), describeRow(shape, dtype), fmt.Sprintf("%d numbers", in)}
	}
	r.batches = batches{input: tensor.AlignedFloat32(maxRows * in), inWidth: in}
	shape, dtype, err = r.table.RowShape(r.spec.Target())
	switch {
	case err != nil:
		return err
	case r.spec.Loss() == model.CrossEntropy && (len(shape) != 0 || dtype != tensor.Int64):
		return &ColumnError{r.spec.Target(), describeRow(shape, dtype), fmt.Sprintf("one class number from 0 to %d", out-1)}
	case r.spec.Loss() == model.CrossEntropy:
		r.batches.class = make([]int64, maxRows)
	case !slices.Equal(shape, []int{out}):
		return &ColumnError{r.spec.Target(), describeRow(shape, dtype), listOf(out)}
	default:
		r.batches.outSize = out
		r.batches.target = tensor.AlignedFloat32(maxRows * out)
	}
	return nil
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

// batch gathers rows; what it returns is valid until the next call.
func (r *run) batch(rows []int) (model.Batch, error) {
	b := model.Batch{Rows: len(rows), Input: r.batches.input[:len(rows)*r.batches.inWidth]}
	if err := r.table.ReadFloat32(r.spec.Input(), rows, b.Input); err != nil {
		return b, err
	}
	if r.batches.class != nil {
		b.Class = r.batches.class[:len(rows)]
		return b, r.table.ReadInt64(r.spec.Target(), rows, b.Class)
	}
	b.Target = r.batches.target[:len(rows)*r.batches.outSize]
	return b, r.table.ReadFloat32(r.spec.Target(), rows, b.Target)
}
