package graph

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
)

// Program executes a differentiated graph.
type Program struct {
	batch    *batch
	maxRows  int
	predict  []step // for the output
	score    []step // from there to the loss
	backward []step
	loss     []float32
	onReady  func(param int)
}

// A step is one operation with the buffers of its inputs.
type step struct {
	op   *operation
	in   []buffer
	last bool // no later step adds to the gradient of op.param
}

// Compile differentiates loss with respect to every parameter and returns what
// executes it. output is the node that [Program.Predict] computes. The graph
// must not be used afterwards.
func (g *Graph) Compile(output, loss Node) (*Program, error) {
	if len(g.params) == 0 {
		return nil, fmt.Errorf("graph: no parameter to train")
	}
	// As gorgonia.Grad, whose one is shared by all graphs: it changes as it is added.
	one := g.expr.AddNode(gorgonia.NewConstant(float32(1)))
	if _, err := gorgonia.Backpropagate(gorgonia.Nodes{loss.node}, gorgonia.Nodes{one}, g.params); err != nil {
		return nil, fmt.Errorf("graph: differentiate the loss (does it depend on every parameter?): %w", err)
	}
	nodes := slices.Clone(g.expr.AllNodes())
	// The order in which nodes were made is topological: an op is applied to
	// nodes that are there.
	slices.SortFunc(nodes, func(a, b *gorgonia.Node) int { return int(a.ID() - b.ID()) })
	c := &compiler{buffers: map[*gorgonia.Node]buffer{}, done: map[*gorgonia.Node]bool{}}
	p := &Program{batch: g.batch, maxRows: g.maxRows, loss: loss.data.f}
	p.predict = c.steps(nodes, output.node)
	p.score = c.steps(nodes, loss.node)
	var gradients []*gorgonia.Node
	for _, n := range nodes {
		if o, ok := n.Op().(*operation); ok && o.param >= 0 {
			gradients = append(gradients, n)
		}
	}
	p.backward = c.steps(nodes, gradients...)
	if c.err != nil {
		return nil, c.err
	}
	markLast(p.backward)
	return p, nil
}

// compiler turns nodes into steps; done holds the nodes that have theirs.
type compiler struct {
	buffers map[*gorgonia.Node]buffer
	done    map[*gorgonia.Node]bool
	err     error
}

// steps makes the steps that targets need beyond those already made, in the
// order of nodes. The sum that Gorgonia adds for a parameter used twice is no
// target: both uses add to one buffer already.
func (c *compiler) steps(nodes []*gorgonia.Node, targets ...*gorgonia.Node) []step {
	needed := map[*gorgonia.Node]bool{}
	for _, n := range targets {
		needed[n] = true
	}
	for _, n := range slices.Backward(nodes) {
		if needed[n] {
			for _, child := range children(n) {
				needed[child] = true
			}
		}
	}
	var steps []step
	for _, n := range nodes {
		if !needed[n] || c.done[n] || c.err != nil {
			continue
		}
		c.done[n] = true
		if s, ok := c.step(n); ok {
			steps = append(steps, s)
		}
	}
	return steps
}

// step finds the buffer of n and, if an operation computes it, the step.
func (c *compiler) step(n *gorgonia.Node) (step, bool) {
	o, ok := n.Op().(*operation)
	if !ok {
		if n.Value() == nil {
			c.err = fmt.Errorf("graph: cannot execute %v", n)
			return step{}, false
		}
		c.buffers[n], c.err = bufferOf(n.Value())
		return step{}, false
	}
	s := step{op: o}
	for _, child := range children(n) {
		b, ok := c.buffers[child]
		if !ok {
			c.err = fmt.Errorf("graph: %v comes before its input %v", n, child)
			return step{}, false
		}
		s.in = append(s.in, b)
	}
	c.buffers[n] = o.out
	return s, true
}

// children are the inputs of n, in order.
func children(n *gorgonia.Node) []*gorgonia.Node {
	g := n.Graph()
	var list []*gorgonia.Node
	for it := g.From(n.ID()); it.Next(); {
		if child, ok := it.Node().(*gorgonia.Node); ok {
			list = append(list, child)
		}
	}
	return list
}

// markLast marks, for each parameter, the last step that adds to its gradient.
func markLast(steps []step) {
	seen := map[int]bool{}
	for i := range slices.Backward(steps) {
		if param := steps[i].op.param; param >= 0 && !seen[param] {
			seen[param] = true
			steps[i].last = true
		}
	}
}

// OnGradientReady sets what [Program.Backward] calls, from its own goroutine, when a
// parameter's gradient of this backward pass is complete: the parameters in
// reverse order of use, by their index of creation. nil for none.
func (p *Program) OnGradientReady(f func(param int)) { p.onReady = f }

// Predict computes the output of the first rows rows of the inputs.
func (p *Program) Predict(rows int) error {
	if err := p.start(rows, 1); err != nil {
		return err
	}
	return run(p.predict)
}

// Loss computes the output and the loss, divided by divisor.
func (p *Program) Loss(rows int, divisor float32) (float32, error) {
	if err := p.start(rows, divisor); err != nil {
		return 0, err
	}
	if err := run(p.predict); err != nil {
		return 0, err
	}
	if err := run(p.score); err != nil {
		return 0, err
	}
	return p.loss[0], nil
}

// Backward adds the gradients of what the last call of [Program.Loss] returned
// to the parameters' buffers. It follows a Loss that succeeded, once.
func (p *Program) Backward() error {
	for i := range p.backward {
		s := &p.backward[i]
		if err := s.op.run(s.in); err != nil {
			return err
		}
		if s.last && p.onReady != nil {
			p.onReady(s.op.param)
		}
	}
	return nil
}

func (p *Program) start(rows int, divisor float32) error {
	if rows < 1 || rows > p.maxRows {
		return fmt.Errorf("graph: a batch of %d rows, expected 1 to %d", rows, p.maxRows)
	}
	if !(divisor > 0) {
		return fmt.Errorf("graph: the loss cannot be divided by %v", divisor)
	}
	p.batch.rows, p.batch.divisor = rows, divisor
	return nil
}

func run(steps []step) error {
	for i := range steps {
		if err := steps[i].op.run(steps[i].in); err != nil {
			return err
		}
	}
	return nil
}
