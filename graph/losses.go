package graph

import (
	"errors"
	"fmt"
	"math"

	"gorgonia.org/gorgonia"

	"rejoin/kernel"
	"rejoin/tensor"
)

// IgnoreIndex is the class of a row that counts for nothing, torch's default.
const IgnoreIndex = -100

// ErrAllIgnored is the error of a batch in which every row has [IgnoreIndex]:
// its mean loss is the mean of nothing.
var ErrAllIgnored = errors.New("every row of the batch has class -100, which is ignored: there is no loss to average")

// ClassError is a class number that the logits have no column for.
type ClassError struct {
	Row     int   // in the batch
	Class   int64 // what the batch says
	Classes int   // the number of columns
}

func (e *ClassError) Error() string {
	return fmt.Sprintf("row %d of the batch has class %d, expected 0 to %d (or %d, ignored)", e.Row, e.Class, e.Classes-1, IgnoreIndex)
}

// MSE is the mean of (prediction-target)² over all elements, divided by the
// run's divisor: torch's mse_loss and `loss / divisor`.
func (g *Graph) MSE(prediction, target Node) (Node, error) {
	cols := prediction.cols
	if target.cols != cols {
		return Node{}, fmt.Errorf("graph: mse of %d columns against %d", cols, target.cols)
	}
	o := g.newOperation("mse", matrixType, matrixType, scalarType)
	batch := g.batch
	o.run = func(args []buffer) error {
		n := batch.rows * cols
		mean := float32(kernel.SumSquaredDiff(args[0].f[:n], args[1].f[:n]) / float64(n))
		o.out.f[0] = mean / batch.divisor
		return nil
	}
	g.scalar(o)
	o.wrt = []bool{true, false}
	o.derive = func(inputs gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
		dx, err := g.mseBackward(inputs, dy, cols)
		return gorgonia.Nodes{dx, nil}, err
	}
	return g.apply(o, 1, prediction, target)
}

func (g *Graph) mseBackward(inputs gorgonia.Nodes, dy *gorgonia.Node, cols int) (*gorgonia.Node, error) {
	o := g.newOperation("mse gradient", matrixType, matrixType, scalarType, matrixType)
	g.matrix(o, cols)
	dx, batch := o.out.f, g.batch
	o.run = func(args []buffer) error {
		n := batch.rows * cols
		norm := float32(2 / float64(n))
		kernel.MSEGrad(dx[:n], args[0].f[:n], args[1].f[:n], norm, args[2].f[0]/batch.divisor)
		return nil
	}
	return gorgonia.ApplyOp(o, inputs[0], inputs[1], dy)
}

// softmaxRows is what the forward pass of a cross entropy leaves to backward.
type softmaxRows struct {
	max, logSum []float32 // of each row
	counted     int       // rows whose class is not ignored
}

// CrossEntropy is the mean over the rows, without those of class [IgnoreIndex],
// of -log softmax(logits)[class], divided by the run's divisor: torch's
// cross_entropy and `loss / divisor`.
func (g *Graph) CrossEntropy(logits, classes Node) (Node, error) {
	if classes.data.class == nil {
		return Node{}, fmt.Errorf("graph: cross entropy needs class numbers as its target")
	}
	cols := logits.cols
	o := g.newOperation("cross entropy", matrixType, classType, scalarType)
	batch := g.batch
	soft := &softmaxRows{max: tensor.AlignedFloat32(g.maxRows), logSum: tensor.AlignedFloat32(g.maxRows)}
	o.run = func(args []buffer) error {
		sum, err := soft.forward(args[0].f, cols, args[1].class[:batch.rows])
		if err != nil {
			return err
		}
		o.out.f[0] = float32(sum/float64(soft.counted)) / batch.divisor
		return nil
	}
	g.scalar(o)
	o.wrt = []bool{true, false}
	o.derive = func(inputs gorgonia.Nodes, output, dy *gorgonia.Node) (gorgonia.Nodes, error) {
		dx, err := g.crossEntropyBackward(inputs, output, dy, soft, cols)
		return gorgonia.Nodes{dx, nil}, err
	}
	return g.apply(o, 1, logits, classes)
}

// forward is the sum of the rows' losses, added in float64 in order.
func (s *softmaxRows) forward(logits []float32, cols int, classes []int64) (float64, error) {
	s.counted = 0
	sum := 0.0
	for i, class := range classes {
		if class == IgnoreIndex {
			continue
		}
		if class < 0 || class >= int64(cols) {
			return 0, &ClassError{Row: i, Class: class, Classes: cols}
		}
		row := logits[i*cols : (i+1)*cols]
		s.max[i] = kernel.RowMax(row)
		s.logSum[i] = float32(math.Log(float64(kernel.SumExp(row, s.max[i]))))
		sum -= float64((row[class] - s.max[i]) - s.logSum[i])
		s.counted++
	}
	if s.counted == 0 {
		return 0, ErrAllIgnored
	}
	return sum, nil
}

// backward writes (softmax - one-hot)*g to dx, 0 for an ignored row.
func (s *softmaxRows) backward(dx, logits []float32, cols int, classes []int64, g float32) {
	for i, class := range classes {
		row := dx[i*cols : (i+1)*cols]
		if class == IgnoreIndex {
			clear(row)
			continue
		}
		kernel.SoftmaxGrad(row, logits[i*cols:(i+1)*cols], s.max[i], s.logSum[i], g)
		row[class] -= g
	}
}

// crossEntropyBackward has the loss among its inputs because it needs what the
// loss left in soft.
func (g *Graph) crossEntropyBackward(inputs gorgonia.Nodes, loss, dy *gorgonia.Node, soft *softmaxRows, cols int) (*gorgonia.Node, error) {
	o := g.newOperation("cross entropy gradient", matrixType, classType, scalarType, scalarType, matrixType)
	g.matrix(o, cols)
	dx, batch := o.out.f, g.batch
	o.run = func(args []buffer) error {
		upstream := args[3].f[0] / batch.divisor
		soft.backward(dx, args[0].f, cols, args[1].class[:batch.rows], upstream/float32(soft.counted))
		return nil
	}
	return gorgonia.ApplyOp(o, inputs[0], inputs[1], loss, dy)
}
