package graph

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"rejoin/tensor"
)

var stackCases = []struct {
	crossEntropy, bias bool
	widths             []int
}{
	{false, true, []int{10, 1}},
	{false, true, []int{5, 7, 3}},
	{false, false, []int{4, 6, 2}},
	{true, true, []int{6, 9, 5}},
	{true, false, []int{6, 4, 4, 3}},
}

// Gorgonia's own tape machine, running the same ops, is the executor's oracle.
func TestProgramEqualsTapeMachine(t *testing.T) {
	for _, tc := range stackCases {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			const rows = 6
			s := newStack(t, rows, tc.crossEntropy, tc.bias, tc.widths...)
			loss := s.step(t, rows, 3)
			got := s.flat()
			s.clearGrads()
			*s.loss.node.Op().(*operation).value.(*gorgonia.F32) = 0
			vm := gorgonia.NewTapeMachine(s.graph.expr)
			if err := vm.RunAll(); err != nil {
				t.Fatal(err)
			}
			if err := vm.Close(); err != nil {
				t.Fatal(err)
			}
			want := float32(*s.loss.node.Value().(*gorgonia.F32))
			sameBits(t, "loss", []float32{loss}, []float32{want})
			sameBits(t, "gradients", got, s.flat())
		})
	}
}

// Gradients against central differences of the loss.
func TestGradientsAgainstFiniteDifferences(t *testing.T) {
	for _, tc := range stackCases {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			const rows, h = 5, 1e-2
			s := newStack(t, rows+2, tc.crossEntropy, tc.bias, tc.widths...)
			s.step(t, rows, 2)
			got := s.flat()
			at := 0
			for _, values := range s.values {
				for i, v := range values {
					values[i] = v + h
					up := must[float32](t)(s.program.Loss(rows, 2))
					values[i] = v - h
					down := must[float32](t)(s.program.Loss(rows, 2))
					values[i] = v
					want := float64(up-down) / (2 * h)
					if math.Abs(float64(got[at])-want) > 2e-2*(1+math.Abs(want)) {
						t.Errorf("gradient %d is %v, differences give %v", at, got[at], want)
					}
					at++
				}
			}
		})
	}
}

// Two micro-batches add up, each by its own number of rows, without a rebuild;
// what lies in the input beyond the rows does not matter.
func TestMicroBatchesAddUp(t *testing.T) {
	s := newStack(t, 8, true, true, 6, 5, 4)
	s.step(t, 8, 2)
	first := s.flat()
	s.clearGrads()
	s.step(t, 3, 2)
	second := s.flat()
	s.clearGrads()
	for i := range s.x.Data()[3*6:] {
		s.x.Data()[3*6+i] += 1
	}
	s.step(t, 3, 2)
	sameBits(t, "rows beyond the batch changed", s.flat(), second)
	for i := range s.x.Data()[3*6:] {
		s.x.Data()[3*6+i] -= 1
	}
	s.step(t, 8, 2)
	for i, g := range s.flat() {
		want := first[i] + second[i]
		if math.Abs(float64(g-want)) > 1e-6 {
			t.Errorf("gradient %d is %v, want %v", i, g, want)
		}
	}
}

func TestStepIsRepeatable(t *testing.T) {
	s := newStack(t, 33, true, true, 20, 30, 7)
	loss := s.step(t, 33, 1)
	want := s.flat()
	for range 3 {
		s.clearGrads()
		sameBits(t, "loss", []float32{s.step(t, 33, 1)}, []float32{loss})
		sameBits(t, "gradients", s.flat(), want)
	}
}

func TestGradientReadyOrder(t *testing.T) {
	s := newStack(t, 4, false, true, 3, 4, 5, 2)
	var order []int
	s.program.OnGradientReady(func(param int) {
		order = append(order, param)
		if slices.Max(s.grads[param]) == 0 && slices.Min(s.grads[param]) == 0 {
			t.Errorf("the gradient of parameter %d is still zero", param)
		}
	})
	s.step(t, 4, 1)
	if want := []int{5, 4, 3, 2, 1, 0}; !slices.Equal(order, want) {
		t.Errorf("ready in the order %v, want %v", order, want)
	}
}

// A weight that two layers share gets both contributions, and is ready once.
func TestTiedWeights(t *testing.T) {
	node := must[Node](t)
	g := must[*Graph](t)(New(2))
	values := []float32{0.5, -1, 2, 0.25}
	grad := tensor.AlignedFloat32(4)
	x := node(g.Input("x", 2))
	w := node(g.Param("w", []int{2, 2}, values, grad))
	h := node(g.Linear(x, w, nil))
	out := node(g.Linear(h, w, nil))
	target := node(g.Input("target", 2))
	p := must[*Program](t)(g.Compile(out, node(g.MSE(out, target))))
	copy(x.Data(), []float32{1, 2, -3, 0.5})
	copy(target.Data(), []float32{1, 0, 0, 1})
	ready := 0
	p.OnGradientReady(func(int) { ready++ })
	must[float32](t)(lossAndGradients(p, 2, 1))
	if ready != 1 {
		t.Errorf("ready %d times", ready)
	}
	got := slices.Clone(grad)
	const eps = 1e-3
	for i, v := range values {
		values[i] = v + eps
		up := must[float32](t)(p.Loss(2, 1))
		values[i] = v - eps
		down := must[float32](t)(p.Loss(2, 1))
		values[i] = v
		if want := float64(up-down) / (2 * eps); math.Abs(float64(got[i])-want) > 2e-2*(1+math.Abs(want)) {
			t.Errorf("gradient %d is %v, differences give %v", i, got[i], want)
		}
	}
}

func TestIgnoredRowsCountForNothing(t *testing.T) {
	s := newStack(t, 4, true, true, 3, 5)
	s.classes.Classes()[3] = IgnoreIndex
	loss := s.step(t, 4, 1)
	got := s.flat()
	s.clearGrads()
	sameBits(t, "loss", []float32{s.step(t, 3, 1)}, []float32{loss})
	sameBits(t, "gradients", s.flat(), got)
}

func TestClassErrors(t *testing.T) {
	s := newStack(t, 3, true, true, 3, 5)
	for _, class := range []int64{5, -1, math.MaxInt64, math.MinInt64} {
		s.classes.Classes()[1] = class
		_, err := lossAndGradients(s.program, 3, 1)
		var ce *ClassError
		if !errors.As(err, &ce) || ce.Row != 1 || ce.Class != class || ce.Classes != 5 {
			t.Errorf("class %d: %v", class, err)
		}
	}
	for i := range s.classes.Classes() {
		s.classes.Classes()[i] = IgnoreIndex
	}
	if _, err := lossAndGradients(s.program, 3, 1); !errors.Is(err, ErrAllIgnored) {
		t.Errorf("all ignored: %v", err)
	}
	for _, g := range s.flat() {
		if g != 0 {
			t.Fatal("a refused batch has touched a gradient")
		}
	}
}

func TestRowsAndDivisorAreChecked(t *testing.T) {
	s := newStack(t, 3, false, true, 3, 1)
	for _, tc := range []struct {
		rows    int
		divisor float32
	}{{0, 1}, {4, 1}, {-1, 1}, {2, 0}, {2, -1}, {2, float32(math.NaN())}} {
		if _, err := lossAndGradients(s.program, tc.rows, tc.divisor); err == nil {
			t.Errorf("%v was accepted", tc)
		}
	}
	if err := s.program.Predict(9); err == nil {
		t.Error("Predict took 9 rows")
	}
}

func TestStepDoesNotAllocatePerNode(t *testing.T) {
	s := newStack(t, 4, true, true, 3, 4, 5)
	allocs := testing.AllocsPerRun(50, func() { s.step(t, 4, 1) })
	if gemms := 5.0; allocs > 2*gemms {
		t.Errorf("%v allocations in a step of %v matrix products", allocs, gemms)
	}
}

func TestBuildErrors(t *testing.T) {
	if _, err := New(0); err == nil {
		t.Error("a graph for no rows")
	}
	four := make([]float32, 4)
	for _, tc := range []struct {
		name, want string
		build      func(g *Graph, x, w Node) error
	}{
		{"duplicate input", `"x" is used twice`, func(g *Graph, _, _ Node) error { _, err := g.Input("x", 3); return err }},
		{"duplicate of a parameter", `"w" is used twice`, func(g *Graph, _, _ Node) error { _, err := g.Classes("w"); return err }},
		{"duplicate parameter", `"w" is used twice`, func(g *Graph, _, _ Node) error { _, err := g.Param("w", []int{4}, four, four); return err }},
		{"no name", "no name", func(g *Graph, _, _ Node) error { _, err := g.Input("", 3); return err }},
		{"no columns", "0 columns", func(g *Graph, _, _ Node) error { _, err := g.Input("z", 0); return err }},
		{"wrong size", "4 values", func(g *Graph, _, _ Node) error { _, err := g.Param("z", []int{5}, four, four); return err }},
		{"three dimensions", "[1 2 2]", func(g *Graph, _, _ Node) error { _, err := g.Param("z", []int{1, 2, 2}, four, four); return err }},
		{"columns differ", "2 inputs is given 3", func(g *Graph, _, w Node) error {
			z := must[Node](t)(g.Input("z", 3))
			_, err := g.Linear(z, w, nil)
			return err
		}},
		{"bias of another length", "vector parameter", func(g *Graph, x, w Node) error {
			b := must[Node](t)(g.Param("b", []int{4}, four, four))
			_, err := g.Linear(x, w, &b)
			return err
		}},
		{"weight is no parameter", "matrix parameter", func(g *Graph, x, _ Node) error { _, err := g.Linear(x, x, nil); return err }},
		{"mse of other columns", "2 columns against 3", func(g *Graph, x, _ Node) error {
			_, err := g.MSE(x, must[Node](t)(g.Input("z", 3)))
			return err
		}},
		{"cross entropy of a matrix", "class numbers", func(g *Graph, x, _ Node) error { _, err := g.CrossEntropy(x, x); return err }},
		{"unused parameter", "every parameter", func(g *Graph, x, w Node) error {
			must[Node](t)(g.Param("unused", []int{4}, four, four))
			y := must[Node](t)(g.Linear(x, w, nil))
			_, err := g.Compile(y, must[Node](t)(g.MSE(y, must[Node](t)(g.Input("z", 2)))))
			return err
		}},
	} {
		g := must[*Graph](t)(New(2))
		x := must[Node](t)(g.Input("x", 2))
		w := must[Node](t)(g.Param("w", []int{2, 2}, slices.Clone(four), slices.Clone(four)))
		if err := tc.build(g, x, w); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q in it", tc.name, err, tc.want)
		}
	}
	g := must[*Graph](t)(New(1))
	if _, err := g.Compile(Node{}, Node{}); err == nil {
		t.Error("a graph without parameters was compiled")
	}
}

// Under Gorgonia's machines a panic in an op would end the process.
func TestPanicInAnOpIsAnError(t *testing.T) {
	s := newStack(t, 2, false, true, 3, 1)
	s.graph.batch.rows = 99
	vm := gorgonia.NewTapeMachine(s.graph.expr)
	if err := vm.RunAll(); err == nil || !strings.Contains(err.Error(), "graph: ") {
		t.Errorf("got %v", err)
	}
	if err := vm.Close(); err != nil {
		t.Fatal(err)
	}
}

// The ranks of a test may live in one process: Gorgonia's globals must bear it.
func TestGraphsInParallel(t *testing.T) {
	stacks, losses := make([]*stack, 4), make([]float32, 4)
	t.Run("build and step", func(t *testing.T) {
		for i := range stacks {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				stacks[i] = newStack(t, 6, true, true, 5, 6, 3)
				losses[i] = stacks[i].step(t, 6, 1)
			})
		}
	})
	for i, s := range stacks {
		sameBits(t, "loss", losses[i:i+1], losses[:1])
		sameBits(t, "gradients", s.flat(), stacks[0].flat())
	}
}
