package model

import (
	"fmt"
	"math"
	"strings"

	"rejoin/graph"
)

// Batch is a number of rows to train on. Its slices are only read.
type Batch struct {
	Rows   int
	Input  []float32 // Rows × InputSize
	Target []float32 // mse: Rows × OutputSize
	Class  []int64   // cross_entropy: Rows class numbers; -100 is ignored
}

// ClassError is a class number that the model's last layer has no output for.
type ClassError = graph.ClassError

// NonFiniteError says that a loss is NaN or infinite, and where that comes from.
type NonFiniteError struct {
	Loss  float32
	Cause string // such as `row 3 of the batch has NaN in input column 5`
}

func (e *NonFiniteError) Error() string { return fmt.Sprintf("the loss is %v: %s", e.Loss, e.Cause) }

// ForwardBackward computes the mean loss of the batch divided by divisor (the
// number of micro-batches of an update, as torch's `loss / divisor`), and adds
// its gradients to the parameters' Grad.
//
// A class that is out of range is a [*rejoin/graph.ClassError], a loss that is
// not finite a [*NonFiniteError]. On any error, gradients are as before.
func (m *Model) ForwardBackward(b Batch, divisor float32) (float32, error) {
	loss, err := m.Loss(b, divisor)
	if err != nil {
		return 0, err
	}
	if math.IsNaN(float64(loss)) || math.IsInf(float64(loss), 0) {
		return 0, &NonFiniteError{loss, m.ExplainNonFinite(b)}
	}
	if err := m.Backward(); err != nil {
		return 0, err
	}
	return loss, nil
}

// Evaluate computes the mean loss of the batch, finite or not, and no gradient.
func (m *Model) Evaluate(b Batch) (float32, error) { return m.Loss(b, 1) }

// Backward adds the gradients of the last [Model.Loss] to the parameters' Grad.
// It follows a Loss that succeeded, once. Where that loss is not finite the
// gradients are what torch's would be: NaN or infinite, for the most part.
func (m *Model) Backward() error { return m.program.Backward() }

// Forward computes the last layer's output for rows rows of input, rows ×
// OutputSize: a view that the next call overwrites.
func (m *Model) Forward(rows int, input []float32) ([]float32, error) {
	if err := m.checkRows(rows, len(input)); err != nil {
		return nil, err
	}
	copy(m.input.Data(), input)
	if err := m.program.Predict(rows); err != nil {
		return nil, err
	}
	return m.output.Data()[:rows*m.spec.OutputSize()], nil
}

// Loss is the forward half of [Model.ForwardBackward]: the mean loss of the
// batch divided by divisor, finite or not, with the same errors.
func (m *Model) Loss(b Batch, divisor float32) (float32, error) {
	if err := m.checkRows(b.Rows, len(b.Input)); err != nil {
		return 0, err
	}
	if m.spec.loss == CrossEntropy {
		if len(b.Class) != b.Rows || len(b.Target) != 0 {
			return 0, fmt.Errorf("model: cross_entropy of %d rows needs as many class numbers and no float targets, found %d and %d", b.Rows, len(b.Class), len(b.Target))
		}
		copy(m.target.Classes(), b.Class)
	} else {
		if want := b.Rows * m.spec.OutputSize(); len(b.Target) != want || len(b.Class) != 0 {
			return 0, fmt.Errorf("model: mse of %d rows needs %d target values and no class numbers, found %d and %d", b.Rows, want, len(b.Target), len(b.Class))
		}
		copy(m.target.Data(), b.Target)
	}
	copy(m.input.Data(), b.Input)
	return m.program.Loss(b.Rows, divisor)
}

func (m *Model) checkRows(rows, values int) error {
	if rows < 1 || rows > m.maxRows {
		return fmt.Errorf("model: a batch of %d rows, expected 1 to %d", rows, m.maxRows)
	}
	if want := rows * m.spec.InputSize(); values != want {
		return fmt.Errorf("model: %d rows of %d inputs are %d values, found %d", rows, m.spec.InputSize(), want, values)
	}
	return nil
}

// ExplainNonFinite looks for the first number that is not finite, where a loss
// of the batch that is not finite may come from.
func (m *Model) ExplainNonFinite(b Batch) string {
	var causes []string
	if i := nonFinite(b.Input); i >= 0 {
		cols := m.spec.InputSize()
		causes = append(causes, fmt.Sprintf("row %d of the batch has %v in input column %d", i/cols, b.Input[i], i%cols))
	}
	if i := nonFinite(b.Target); i >= 0 {
		cols := m.spec.OutputSize()
		causes = append(causes, fmt.Sprintf("row %d of the batch has %v in target column %d", i/cols, b.Target[i], i%cols))
	}
	for _, p := range m.params {
		if i := nonFinite(p.Values); i >= 0 {
			causes = append(causes, fmt.Sprintf("parameter %s has %v at element %d", p.Name, p.Values[i], i))
		}
	}
	if len(causes) == 0 {
		return "batch and parameters are finite, so the forward pass overflowed; lower the learning rate or clip gradients"
	}
	return strings.Join(causes, "; ")
}

// nonFinite is the index of the first NaN or infinity, or -1.
func nonFinite(x []float32) int {
	for i, v := range x {
		if v-v != 0 {
			return i
		}
	}
	return -1
}
