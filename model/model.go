package model

import (
	"fmt"
	"math"

	"rejoin/graph"
	"rejoin/tensor"
)

// Param is one parameter. Values and Grad are views of the model's flat buffers,
// where they begin at element Offset.
type Param struct {
	Name         string
	Shape        []int
	Values, Grad []float32
	Offset       int
}

// Model is a stack of layers with its parameters, ready to train. It is for one
// goroutine at a time.
type Model struct {
	spec          *Spec
	maxRows       int
	params        []*Param
	values, grads []float32
	program       *graph.Program
	input, target graph.Node
	output        graph.Node
}

// New builds the model for batches of at most maxRows rows, with all parameters
// zero. Its error may be a [*rejoin/kernel.ForcedError].
func New(spec *Spec, maxRows int) (*Model, error) {
	g, err := graph.New(maxRows)
	if err != nil {
		return nil, err
	}
	m := &Model{spec: spec, maxRows: maxRows}
	m.allocate()
	if err := m.build(g); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return m, nil
}

// allocate lays the parameters out in the flat buffers, in named_parameters() order.
func (m *Model) allocate() {
	for _, l := range m.spec.layers {
		if l.Kind != Linear {
			continue
		}
		m.params = append(m.params, &Param{Name: l.Name + ".weight", Shape: []int{l.Out, l.In}})
		if l.Bias {
			m.params = append(m.params, &Param{Name: l.Name + ".bias", Shape: []int{l.Out}})
		}
	}
	const boundary = tensor.Alignment / 4
	size := 0
	offsets := make([]int, len(m.params))
	for i, p := range m.params {
		offsets[i] = size
		size += (numel(p.Shape) + boundary - 1) / boundary * boundary
	}
	m.values, m.grads = tensor.AlignedFloat32(size), tensor.AlignedFloat32(size + GradSlack)[:size]
	for i, p := range m.params {
		from, to := offsets[i], offsets[i]+numel(p.Shape)
		p.Offset = from
		p.Values, p.Grad = m.values[from:to:to], m.grads[from:to:to]
	}
}

func numel(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// build makes the graph: the layers, then the loss.
func (m *Model) build(g *graph.Graph) (err error) {
	if m.input, err = g.Input("input", m.spec.InputSize()); err != nil {
		return err
	}
	m.output = m.input
	next := 0
	param := func() (graph.Node, error) {
		p := m.params[next]
		next++
		return g.Param(p.Name, p.Shape, p.Values, p.Grad)
	}
	for _, l := range m.spec.layers {
		if l.Kind == ReLU {
			m.output, err = g.ReLU(m.output)
		} else {
			m.output, err = buildLinear(g, m.output, l.Bias, param)
		}
		if err != nil {
			return err
		}
	}
	var loss graph.Node
	if m.spec.loss == CrossEntropy {
		if m.target, err = g.Classes("target"); err == nil {
			loss, err = g.CrossEntropy(m.output, m.target)
		}
	} else {
		if m.target, err = g.Input("target", m.output.Cols()); err == nil {
			loss, err = g.MSE(m.output, m.target)
		}
	}
	if err != nil {
		return err
	}
	m.program, err = g.Compile(m.output, loss)
	return err
}

func buildLinear(g *graph.Graph, x graph.Node, bias bool, param func() (graph.Node, error)) (graph.Node, error) {
	weight, err := param()
	if err != nil || !bias {
		if err != nil {
			return graph.Node{}, err
		}
		return g.Linear(x, weight, nil)
	}
	b, err := param()
	if err != nil {
		return graph.Node{}, err
	}
	return g.Linear(x, weight, &b)
}

// Spec is the description that the model was built from.
func (m *Model) Spec() *Spec { return m.spec }

// Params are the parameters in named_parameters() order.
func (m *Model) Params() []*Param { return m.params }

// FlatValues holds all parameters, each at a multiple of 64 bytes, with zeros between.
func (m *Model) FlatValues() []float32 { return m.values }

// GradSlack is how many elements lie unused behind the gradients in their buffer.
const GradSlack = tensor.Alignment / 4

// FlatGrads holds all gradients, laid out as [Model.FlatValues]. Its capacity has
// room for [GradSlack] more elements, for whoever sums it over ranks to send along.
func (m *Model) FlatGrads() []float32 { return m.grads }

// ZeroGrad sets all gradients to zero.
func (m *Model) ZeroGrad() { clear(m.grads) }

// OnGradientReady sets what is called, from within ForwardBackward, as soon as a
// parameter's gradient of this backward pass is complete: with the index in
// Params, from the last parameter to the first. nil, the default, for none.
func (m *Model) OnGradientReady(f func(param int)) { m.program.OnGradientReady(f) }

// Uniform is torch's generator, as far as Init needs it: Tensor.uniform_(low, high).
type Uniform interface {
	UniformFloat32(dst []float32, low, high float32)
}

// Init fills the parameters as torch's nn.Linear.reset_parameters does when the
// layers are constructed in order: weight, then bias, both uniform within
// 1/sqrt(fan_in) (kaiming_uniform_ with a = sqrt(5) works its bound out by
// another way, which is followed here).
func (m *Model) Init(g Uniform) {
	next := 0
	for _, l := range m.spec.layers {
		if l.Kind != Linear {
			continue
		}
		a, fanIn := math.Sqrt(5), float64(l.In)
		gain := math.Sqrt(2 / (1 + float64(a*a)))
		bound := float32(math.Sqrt(3) * (gain / math.Sqrt(fanIn)))
		g.UniformFloat32(m.params[next].Values, -bound, bound)
		next++
		if l.Bias {
			bound = float32(1 / math.Sqrt(fanIn))
			g.UniformFloat32(m.params[next].Values, -bound, bound)
			next++
		}
	}
}
