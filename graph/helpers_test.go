package graph

import (
	"math"
	"math/rand/v2"
	"testing"

	"rejoin/tensor"
)

// A stack is linear layers with ReLU between them, and its loss.
type stack struct {
	graph   *Graph
	program *Program
	x       Node
	target  Node // of mse
	classes Node // of cross entropy
	output  Node
	loss    Node
	values  [][]float32
	grads   [][]float32
}

func random(r *rand.Rand, n int) []float32 {
	x := tensor.AlignedFloat32(n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// must fails the test on an error.
func must[T any](tb testing.TB) func(T, error) T {
	tb.Helper()
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

func (s *stack) param(tb testing.TB, r *rand.Rand, name string, shape ...int) Node {
	tb.Helper()
	n := 1
	for _, d := range shape {
		n *= d
	}
	values, grad := random(r, n), tensor.AlignedFloat32(n)
	s.values, s.grads = append(s.values, values), append(s.grads, grad)
	return must[Node](tb)(s.graph.Param(name, shape, values, grad))
}

// newStack builds widths[0] → widths[1] → … with parameters and inputs from one seed.
func newStack(t *testing.T, maxRows int, crossEntropy, bias bool, widths ...int) *stack {
	t.Helper()
	node := must[Node](t)
	r := rand.New(rand.NewPCG(20, 21))
	s := &stack{graph: must[*Graph](t)(New(maxRows))}
	s.x = node(s.graph.Input("x", widths[0]))
	h := s.x
	for i := range len(widths) - 1 {
		name := string(rune('a' + i))
		w := s.param(t, r, name+".weight", widths[i+1], widths[i])
		var b *Node
		if bias {
			n := s.param(t, r, name+".bias", widths[i+1])
			b = &n
		}
		h = node(s.graph.Linear(h, w, b))
		if i < len(widths)-2 {
			h = node(s.graph.ReLU(h))
		}
	}
	s.output = h
	out := widths[len(widths)-1]
	copy(s.x.Data(), random(r, maxRows*widths[0]))
	if crossEntropy {
		s.classes = node(s.graph.Classes("class"))
		for i := range s.classes.Classes() {
			s.classes.Classes()[i] = int64(r.IntN(out))
		}
		s.loss = node(s.graph.CrossEntropy(h, s.classes))
	} else {
		s.target = node(s.graph.Input("target", out))
		copy(s.target.Data(), random(r, maxRows*out))
		s.loss = node(s.graph.MSE(h, s.target))
	}
	s.program = must[*Program](t)(s.graph.Compile(s.output, s.loss))
	return s
}

func (s *stack) clearGrads() {
	for _, g := range s.grads {
		clear(g)
	}
}

func (s *stack) step(t *testing.T, rows int, divisor float32) float32 {
	t.Helper()
	return must[float32](t)(lossAndGradients(s.program, rows, divisor))
}

// lossAndGradients is a whole forward and backward pass.
func lossAndGradients(p *Program, rows int, divisor float32) (float32, error) {
	loss, err := p.Loss(rows, divisor)
	if err != nil {
		return 0, err
	}
	return loss, p.Backward()
}

// flat copies the gradients.
func (s *stack) flat() []float32 {
	var all []float32
	for _, g := range s.grads {
		all = append(all, g...)
	}
	return all
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}
