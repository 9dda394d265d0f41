package graph

import (
	"fmt"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"

	"rejoin/kernel"
)

// Linear is x·weightᵀ + bias in torch's layout: x is rows × in, weight is
// [out, in], bias is [out] or nil.
func (g *Graph) Linear(x, weight Node, bias *Node) (Node, error) {
	in, out := weight.cols, weight.node.Shape()[0]
	if g.index[weight.node] == nil || weight.node.Dims() != 2 {
		return Node{}, fmt.Errorf("graph: the weight of a linear layer must be a matrix parameter")
	}
	if x.cols != in {
		return Node{}, fmt.Errorf("graph: a linear layer of %d inputs is given %d", in, x.cols)
	}
	types := []hm.Type{matrixType, matrixType, matrixType}
	inputs := []Node{x, weight}
	if bias != nil {
		if g.index[bias.node] == nil || bias.node.Dims() != 1 || bias.cols != out {
			return Node{}, fmt.Errorf("graph: the bias of a linear layer of %d outputs must be a vector parameter of that length", out)
		}
		types = []hm.Type{matrixType, matrixType, vectorType, matrixType}
		inputs = append(inputs, *bias)
	}
	o := g.newOperation("linear", types...)
	g.matrix(o, out)
	y, batch := o.out.f, g.batch
	o.run = func(args []buffer) error {
		rows := batch.rows
		var beta float32
		if len(args) == 3 { // as torch's addmm: the bias first, the product added to it
			kernel.FillRows(y[:rows*out], args[2].f)
			beta = 1
		}
		kernel.Gemm(false, true, rows, out, in, 1, args[0].f, in, args[1].f, in, beta, y, out)
		return nil
	}
	o.wrt = []bool{x.needsGrad, true, true}[:len(inputs)]
	o.derive = func(inputs gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
		return g.linearBackward(inputs, dy, in, out, x.needsGrad)
	}
	return g.apply(o, out, inputs...)
}

// linearBackward makes the gradients' nodes in the order in which they shall
// run: bias and weight, whose gradients others wait for, and then the input.
func (g *Graph) linearBackward(inputs gorgonia.Nodes, dy *gorgonia.Node, in, out int, wantInput bool) (gorgonia.Nodes, error) {
	grads := make(gorgonia.Nodes, len(inputs))
	var err error
	if len(inputs) == 3 {
		if grads[2], err = g.biasGrad(inputs[2], dy, out); err != nil {
			return nil, err
		}
	}
	if grads[1], err = g.weightGrad(inputs[1], inputs[0], dy, in, out); err != nil {
		return nil, err
	}
	if wantInput {
		if grads[0], err = g.inputGrad(inputs[1], dy, in, out); err != nil {
			return nil, err
		}
	}
	return grads, nil
}

func (g *Graph) biasGrad(bias, dy *gorgonia.Node, out int) (*gorgonia.Node, error) {
	o := g.newOperation("bias gradient", matrixType, vectorType)
	grad, batch := g.gradient(o, bias), g.batch
	o.run = func(args []buffer) error {
		kernel.AddColumnSums(grad, args[0].f[:batch.rows*out])
		return nil
	}
	return gorgonia.ApplyOp(o, dy)
}

// weightGrad adds dyᵀ·x, [out, in].
func (g *Graph) weightGrad(weight, x, dy *gorgonia.Node, in, out int) (*gorgonia.Node, error) {
	o := g.newOperation("weight gradient", matrixType, matrixType, matrixType)
	grad, batch := g.gradient(o, weight), g.batch
	o.run = func(args []buffer) error {
		kernel.Gemm(true, false, out, in, batch.rows, 1, args[0].f, out, args[1].f, in, 1, grad, in)
		return nil
	}
	return gorgonia.ApplyOp(o, dy, x)
}

// inputGrad is dy·weight, rows × in.
func (g *Graph) inputGrad(weight, dy *gorgonia.Node, in, out int) (*gorgonia.Node, error) {
	o := g.newOperation("input gradient", matrixType, matrixType, matrixType)
	g.matrix(o, in)
	dx, batch := o.out.f, g.batch
	o.run = func(args []buffer) error {
		kernel.Gemm(false, false, batch.rows, in, out, 1, args[0].f, out, args[1].f, in, 0, dx, in)
		return nil
	}
	return gorgonia.ApplyOp(o, dy, weight)
}

// ReLU is max(x, 0), elementwise.
func (g *Graph) ReLU(x Node) (Node, error) {
	cols := x.cols
	o := g.newOperation("relu", matrixType, matrixType)
	g.matrix(o, cols)
	y, batch := o.out.f, g.batch
	o.run = func(args []buffer) error {
		n := batch.rows * cols
		kernel.ReLU(y[:n], args[0].f[:n])
		return nil
	}
	o.wrt = []bool{x.needsGrad}
	o.derive = func(_ gorgonia.Nodes, output, dy *gorgonia.Node) (gorgonia.Nodes, error) {
		dx, err := g.reluBackward(output, dy, cols)
		return gorgonia.Nodes{dx}, err
	}
	node, err := g.apply(o, cols, x)
	node.needsGrad = x.needsGrad
	return node, err
}

func (g *Graph) reluBackward(y, dy *gorgonia.Node, cols int) (*gorgonia.Node, error) {
	o := g.newOperation("relu gradient", matrixType, matrixType, matrixType)
	g.matrix(o, cols)
	dx, batch := o.out.f, g.batch
	o.run = func(args []buffer) error {
		n := batch.rows * cols
		kernel.ReLUBackward(dx[:n], args[0].f[:n], args[1].f[:n])
		return nil
	}
	return gorgonia.ApplyOp(o, dy, y)
}
