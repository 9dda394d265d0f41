package graph

import (
	"fmt"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	gtensor "gorgonia.org/tensor"

	"rejoin/kernel"
	"rejoin/tensor"
)

// Graph is an expression under construction.
type Graph struct {
	expr    *gorgonia.ExprGraph
	maxRows int
	batch   *batch
	names   map[string]bool
	lastID  uint64
	params  []*gorgonia.Node
	index   map[*gorgonia.Node]*parameter
}

type parameter struct {
	index int
	grad  []float32
}

// Node is a value in a [Graph].
type Node struct {
	node      *gorgonia.Node
	cols      int
	data      buffer
	needsGrad bool
}

// Cols is the number of columns of a matrix.
func (n Node) Cols() int { return n.cols }

// Data is the float32 storage of an input or of an operation's result, row by
// row for the largest batch: an input's owner writes to it before a run.
func (n Node) Data() []float32 { return n.data.f }

// Classes is the storage of an input made by [Graph.Classes].
func (n Node) Classes() []int64 { return n.data.class }

// New starts a graph for batches of at most maxRows rows.
func New(maxRows int) (*Graph, error) {
	if maxRows < 1 {
		return nil, fmt.Errorf("graph: a batch of at most %d rows is none", maxRows)
	}
	if err := kernel.Load(); err != nil {
		return nil, err
	}
	return &Graph{
		expr:    gorgonia.NewGraph(),
		maxRows: maxRows,
		batch:   &batch{rows: maxRows, divisor: 1},
		names:   map[string]bool{},
		index:   map[*gorgonia.Node]*parameter{},
	}, nil
}

// claim refuses a name that is taken: Gorgonia would silently merge two inputs
// of one name and shape.
func (g *Graph) claim(name string) error {
	if name == "" {
		return fmt.Errorf("graph: an input or parameter has no name")
	}
	if g.names[name] {
		return fmt.Errorf("graph: the name %q is used twice", name)
	}
	g.names[name] = true
	return nil
}

// Input adds a matrix of rows × cols that the caller fills before each run.
func (g *Graph) Input(name string, cols int) (Node, error) {
	if cols < 1 {
		return Node{}, fmt.Errorf("graph: input %q has %d columns", name, cols)
	}
	if err := g.claim(name); err != nil {
		return Node{}, err
	}
	data := tensor.AlignedFloat32(g.maxRows * cols)
	node := gorgonia.NewMatrix(g.expr, gtensor.Float32, gorgonia.WithName(name), gorgonia.WithShape(g.maxRows, cols),
		gorgonia.WithValue(dense(data, g.maxRows, cols)))
	return Node{node: node, cols: cols, data: buffer{f: data}}, nil
}

// Classes adds a vector of one class number per row that the caller fills
// before each run.
func (g *Graph) Classes(name string) (Node, error) {
	if err := g.claim(name); err != nil {
		return Node{}, err
	}
	data := make([]int64, g.maxRows)
	node := gorgonia.NewVector(g.expr, gtensor.Int64, gorgonia.WithName(name), gorgonia.WithShape(g.maxRows),
		gorgonia.WithValue(dense(data, g.maxRows)))
	return Node{node: node, data: buffer{class: data}}, nil
}

// Param adds a parameter, a vector or matrix. The graph reads values and adds
// the gradient to grad; both stay the caller's and are of the size of shape.
func (g *Graph) Param(name string, shape []int, values, grad []float32) (Node, error) {
	size := 1
	for _, d := range shape {
		size *= d
	}
	if len(shape) < 1 || len(shape) > 2 || size < 1 || len(values) != size || len(grad) != size {
		return Node{}, fmt.Errorf("graph: parameter %q of shape %v has %d values and %d gradients", name, shape, len(values), len(grad))
	}
	if err := g.claim(name); err != nil {
		return Node{}, err
	}
	options := []gorgonia.NodeConsOpt{gorgonia.WithName(name), gorgonia.WithShape(shape...), gorgonia.WithValue(dense(values, shape...))}
	var node *gorgonia.Node
	if len(shape) == 1 {
		node = gorgonia.NewVector(g.expr, gtensor.Float32, options...)
	} else {
		node = gorgonia.NewMatrix(g.expr, gtensor.Float32, options...)
	}
	g.index[node] = &parameter{index: len(g.params), grad: grad}
	g.params = append(g.params, node)
	return Node{node: node, cols: shape[len(shape)-1], data: buffer{f: values}, needsGrad: true}, nil
}

// newOperation makes an op of the given types, inputs first and result last.
func (g *Graph) newOperation(name string, types ...hm.Type) *operation {
	g.lastID++
	return &operation{id: g.lastID, name: name, typ: hm.NewFnType(types...), arity: len(types) - 1, param: -1}
}

// matrix gives o an output of its own, maxRows × cols.
func (g *Graph) matrix(o *operation, cols int) {
	o.out.f = tensor.AlignedFloat32(g.maxRows * cols)
	o.shape = gtensor.Shape{g.maxRows, cols}
	o.value = dense(o.out.f, g.maxRows, cols)
}

// scalar gives o one number as its output.
func (g *Graph) scalar(o *operation) {
	value := gorgonia.NewF32(0)
	o.out.f = tensor.AlignedFloat32(1)
	o.shape = gtensor.ScalarShape()
	o.value = value
	run := o.run
	o.run = func(in []buffer) error {
		err := run(in)
		*value = gorgonia.F32(o.out.f[0])
		return err
	}
}

// gradient lets o add to the gradient of the parameter node.
func (g *Graph) gradient(o *operation, node *gorgonia.Node) []float32 {
	p := g.index[node]
	o.param = p.index
	o.out.f = p.grad
	o.shape = node.Shape()
	o.value = dense(p.grad, o.shape...)
	return p.grad
}

func (g *Graph) apply(o *operation, cols int, inputs ...Node) (Node, error) {
	nodes := make(gorgonia.Nodes, len(inputs))
	for i, in := range inputs {
		nodes[i] = in.node
	}
	node, err := gorgonia.ApplyOp(o, nodes...)
	if err != nil {
		return Node{}, fmt.Errorf("graph: %v: %w", o, err)
	}
	return Node{node: node, cols: cols, data: o.out, needsGrad: true}, nil
}
