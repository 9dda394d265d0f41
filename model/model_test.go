package model

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"rejoin/graph"
	"rejoin/tensor"
)

const regressionYAML = "layers:\n  - {linear: [3, 5], name: a}\n  - relu\n  - {linear: [5, 2], name: b}\nloss: mse\ninput: x\ntarget: y\n"

func newModel(t testing.TB, text string, maxRows int) *Model {
	t.Helper()
	spec, err := ParseSpec([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(spec, maxRows)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ramp fills the parameters with different small numbers.
func ramp(m *Model) {
	n := 0
	for _, p := range m.Params() {
		for i := range p.Values {
			n++
			p.Values[i] = float32(math.Sin(float64(n)))
		}
	}
}

func regressionBatch() Batch {
	return Batch{Rows: 2, Input: []float32{1, -2, 0.5, 0.25, 3, -1}, Target: []float32{1, 0, -1, 2}}
}

func paddingIsZero(t *testing.T, m *Model) {
	t.Helper()
	for name, flat := range map[string][]float32{"values": m.FlatValues(), "gradients": m.FlatGrads()} {
		used := make([]bool, len(flat))
		for _, p := range m.Params() {
			view := p.Values
			if name == "gradients" {
				view = p.Grad
			}
			at := int(uintptr(unsafe.Pointer(&view[0]))-uintptr(unsafe.Pointer(&flat[0]))) / 4
			for i := range view {
				used[at+i] = true
			}
		}
		for i, v := range flat {
			if !used[i] && v != 0 {
				t.Errorf("%s: padding element %d is %v", name, i, v)
			}
		}
	}
}

func TestLayout(t *testing.T) {
	m := newModel(t, regressionYAML, 4)
	var got []string
	for _, p := range m.Params() {
		got = append(got, fmt.Sprintf("%s %v %d %d", p.Name, p.Shape, len(p.Values), len(p.Grad)))
		for _, view := range [][]float32{p.Values, p.Grad} {
			if uintptr(unsafe.Pointer(&view[0]))%tensor.Alignment != 0 {
				t.Errorf("%s is not aligned", p.Name)
			}
			if cap(view) != len(view) {
				t.Errorf("%s can grow into its neighbour", p.Name)
			}
		}
	}
	want := []string{"a.weight [5 3] 15 15", "a.bias [5] 5 5", "b.weight [2 5] 10 10", "b.bias [2] 2 2"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if len(m.FlatValues()) != 4*16 || len(m.FlatGrads()) != 4*16 {
		t.Errorf("flat buffers of %d and %d", len(m.FlatValues()), len(m.FlatGrads()))
	}
}

func TestStateDictRoundTrip(t *testing.T) {
	m := newModel(t, regressionYAML, 4)
	ramp(m)
	sd := m.StateDict()
	if want := []string{"a.weight", "a.bias", "b.weight", "b.bias"}; !slices.Equal(sd.Names(), want) {
		t.Errorf("names %v, want %v", sd.Names(), want)
	}
	other := newModel(t, regressionYAML, 1)
	if err := other.Load(sd); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(other.FlatValues(), m.FlatValues()) {
		t.Error("values differ after a round trip")
	}
	m.Params()[0].Values[0] = 99
	if got := make([]float32, 15); sd.ReadFloat32(got, "a.weight", []int{5, 3}) != nil || got[0] == 99 {
		t.Error("the state dict shares memory with the model")
	}
}

func TestLoadListsEveryMismatch(t *testing.T) {
	m := newModel(t, regressionYAML, 4)
	ramp(m)
	before := slices.Clone(m.FlatValues())
	sd := tensor.NewStateDict()
	sd.Set("a.weight", tensor.FromFloat32(make([]float32, 15), 3, 5))
	sd.Set("b.weight", tensor.FromFloat32(make([]float32, 10), 2, 5))
	sd.Set("b.bias", tensor.FromFloat32(make([]float32, 3), 3))
	sd.Set("module.a.bias", tensor.FromFloat32(make([]float32, 5), 5))
	sd.Set("c.weight", tensor.FromFloat32(make([]float32, 1), 1))
	err := m.Load(sd)
	var me *MismatchError
	if !errors.As(err, &me) {
		t.Fatalf("%v", err)
	}
	if !slices.Equal(me.Missing, []string{"a.bias"}) || !slices.Equal(me.Unexpected, []string{"module.a.bias", "c.weight"}) || len(me.Shapes) != 2 {
		t.Errorf("%+v", me)
	}
	for _, part := range []string{"missing: a.bias", "unexpected: module.a.bias, c.weight", "a.weight: the file has shape [3 5], the model [5 3]", "b.bias: the file has shape [3], the model [2]"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
	if !slices.Equal(m.FlatValues(), before) {
		t.Error("a refused state dict changed the model")
	}
}

func TestLoadChangesNothingWhenATensorIsUnreadable(t *testing.T) {
	m := newModel(t, regressionYAML, 4)
	sd := m.StateDict()
	ramp(m)
	before := slices.Clone(m.FlatValues())
	sd.Set("b.bias", &tensor.Tensor{DType: tensor.Float32, Shape: []int{2}, Stride: []int{1}, Meta: true})
	if err := m.Load(sd); err == nil || !strings.Contains(err.Error(), `"b.bias"`) || !strings.Contains(err.Error(), "meta device") {
		t.Errorf("%v", err)
	}
	if !slices.Equal(m.FlatValues(), before) {
		t.Error("a refused state dict changed the model")
	}
}

func TestGradientsAddUpUntilZeroed(t *testing.T) {
	m := newModel(t, regressionYAML, 4)
	ramp(m)
	b := regressionBatch()
	step := func() {
		if _, err := m.ForwardBackward(b, 1); err != nil {
			t.Fatal(err)
		}
	}
	step()
	once := slices.Clone(m.FlatGrads())
	step()
	for i, g := range m.FlatGrads() {
		if math.Abs(float64(g-2*once[i])) > 1e-5 {
			t.Fatalf("gradient %d is %v after two passes, %v after one", i, g, once[i])
		}
	}
	m.ZeroGrad()
	step()
	if !slices.Equal(m.FlatGrads(), once) {
		t.Error("a pass after ZeroGrad differs")
	}
}

func TestOnGradientReady(t *testing.T) {
	m := newModel(t, regressionYAML, 4)
	ramp(m)
	var order []string
	m.OnGradientReady(func(i int) { order = append(order, m.Params()[i].Name) })
	if _, err := m.ForwardBackward(regressionBatch(), 1); err != nil {
		t.Fatal(err)
	}
	if want := []string{"b.bias", "b.weight", "a.bias", "a.weight"}; !slices.Equal(order, want) {
		t.Errorf("ready in the order %v, want %v", order, want)
	}
	m.OnGradientReady(nil)
	if _, err := m.ForwardBackward(regressionBatch(), 1); err != nil || len(order) != 4 {
		t.Errorf("%v, %d calls", err, len(order))
	}
}

func TestNonFiniteLossIsExplained(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tc := range []struct {
		name, want string
		spoil      func(m *Model, b *Batch)
	}{
		{"input", "row 1 of the batch has NaN in input column 2", func(_ *Model, b *Batch) { b.Input[5] = nan }},
		{"target", "row 0 of the batch has +Inf in target column 1", func(_ *Model, b *Batch) { b.Target[1] = inf }},
		{"parameter", "parameter b.weight has NaN at element 3", func(m *Model, _ *Batch) { m.Params()[2].Values[3] = nan }},
		{"overflow", "overflowed", func(m *Model, _ *Batch) { m.Params()[3].Values[0] = 3e38 }},
	} {
		m, b := newModel(t, regressionYAML, 4), regressionBatch()
		ramp(m)
		tc.spoil(m, &b)
		_, err := m.ForwardBackward(b, 1)
		var ne *NonFiniteError
		if !errors.As(err, &ne) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if slices.ContainsFunc(m.FlatGrads(), func(g float32) bool { return g != 0 }) {
			t.Errorf("%s: gradients were touched", tc.name)
		}
		if loss, err := m.Evaluate(b); err != nil || loss-loss == 0 {
			t.Errorf("%s: Evaluate gives %v, %v", tc.name, loss, err)
		}
	}
}

func TestBatchErrors(t *testing.T) {
	m := newModel(t, regressionYAML, 2)
	c := newModel(t, digitsYAML, 2)
	good := regressionBatch()
	for name, call := range map[string]func() error{
		"no rows":          func() error { _, err := m.ForwardBackward(Batch{}, 1); return err },
		"too many rows":    func() error { _, err := m.Forward(3, make([]float32, 9)); return err },
		"short input":      func() error { _, err := m.Forward(2, make([]float32, 5)); return err },
		"short target":     func() error { _, err := m.Evaluate(Batch{2, good.Input, good.Target[:3], nil}); return err },
		"classes for mse":  func() error { _, err := m.Evaluate(Batch{2, good.Input, nil, []int64{0, 1}}); return err },
		"target for class": func() error { _, err := c.Evaluate(Batch{1, make([]float32, 64), []float32{1}, nil}); return err },
		"zero divisor":     func() error { _, err := m.ForwardBackward(good, 0); return err },
		"no batch size":    func() error { _, err := New(m.Spec(), 0); return err },
	} {
		if call() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	_, err := c.ForwardBackward(Batch{Rows: 2, Input: make([]float32, 128), Class: []int64{0, 10}}, 1)
	var ce *graph.ClassError
	if !errors.As(err, &ce) || ce.Row != 1 || ce.Class != 10 {
		t.Errorf("class out of range: %v", err)
	}
}

func ExampleModel_ForwardBackward() {
	spec, _ := ParseSpec([]byte("layers: [{linear: [2, 1], name: fc}]\nloss: mse\ninput: x\ntarget: y\n"))
	m, err := New(spec, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	copy(m.Params()[0].Values, []float32{1, 2})
	loss, err := m.ForwardBackward(Batch{Rows: 2, Input: []float32{1, 1, 2, 0}, Target: []float32{0, 0}}, 1)
	fmt.Println(loss, err)
	for _, p := range m.Params() {
		fmt.Println(p.Name, p.Grad)
	}
	// Output:
	// 6.5 <nil>
	// fc.weight [7 3]
	// fc.bias [5]
}
