package model

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"testing"

	"rejoin/tensor"
)

// array is an array that testdata holds as the base64 of its bytes.
type array[T float32 | int64] []T

func (a *array[T]) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	*a = make([]T, len(data)/binary.Size(T(0)))
	_, err = binary.Decode(data, binary.LittleEndian, *a)
	return err
}

// torchCase is one forward and backward pass of real torch.
type torchCase struct {
	Name     string
	LossKind Loss            `json:"loss_kind"`
	Layers   json.RawMessage // JSON is YAML: it goes into the description as it is
	Rows     int
	Divisor  float32
	X        array[float32]
	Target   json.RawMessage
	Output   array[float32]
	Loss     array[float32]
	Params   []struct {
		Name  string
		Shape []int
		Value array[float32]
		Grad  array[float32]
	}
}

func (tc *torchCase) model(t *testing.T, maxRows int) *Model {
	t.Helper()
	spec, err := ParseSpec(fmt.Appendf(nil, "layers: %s\nloss: %s\ninput: x\ntarget: y\n", tc.Layers, tc.LossKind))
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(spec, maxRows)
	if err != nil {
		t.Fatal(err)
	}
	sd := tensor.NewStateDict()
	for _, p := range tc.Params {
		sd.Set(p.Name, tensor.FromFloat32(p.Value, p.Shape...))
	}
	if err := m.Load(sd); err != nil {
		t.Fatal(err)
	}
	return m
}

func (tc *torchCase) batch(t *testing.T) Batch {
	t.Helper()
	b := Batch{Rows: tc.Rows, Input: tc.X}
	var err error
	if tc.LossKind == CrossEntropy {
		err = json.Unmarshal(tc.Target, (*array[int64])(&b.Class))
	} else {
		err = json.Unmarshal(tc.Target, (*array[float32])(&b.Target))
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// closeTo compares within 1e-6 of the largest magnitude of want, or of atLeast.
func closeTo(t *testing.T, what string, got, want []float32, atLeast float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	top, worst := atLeast, 0.0
	for i := range want {
		top = max(top, math.Abs(float64(want[i])))
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= worst) {
			worst = d
		}
	}
	if !(worst <= 1e-6*top) {
		t.Errorf("%s is off by %.2g of its largest element", what, worst/top)
	}
}

func (tc *torchCase) check(t *testing.T) {
	m, b := tc.model(t, tc.Rows+3), tc.batch(t)
	output, err := m.Forward(b.Rows, b.Input)
	if err != nil {
		t.Fatal(err)
	}
	closeTo(t, "output", output, tc.Output, 0)
	loss, err := m.ForwardBackward(b, tc.Divisor)
	if err != nil {
		t.Fatal(err)
	}
	closeTo(t, "loss", []float32{loss}, tc.Loss, 0)
	for i, p := range m.Params() {
		want := tc.Params[i]
		if p.Name != want.Name || fmt.Sprint(p.Shape) != fmt.Sprint(want.Shape) {
			t.Fatalf("parameter %d is %s %v, torch has %s %v", i, p.Name, p.Shape, want.Name, want.Shape)
		}
		// A single number is a sum of terms that may cancel, and has no larger
		// element beside it to be measured by: the weight's gradient is.
		atLeast := 0.0
		if i > 0 && len(p.Grad) == 1 {
			for _, g := range tc.Params[i-1].Grad {
				atLeast = max(atLeast, math.Abs(float64(g)))
			}
		}
		closeTo(t, "gradient of "+p.Name, p.Grad, want.Grad, atLeast)
	}
	paddingIsZero(t, m)
	evaluated, err := m.Evaluate(b)
	if err != nil {
		t.Fatal(err)
	}
	closeTo(t, "evaluated loss", []float32{evaluated / tc.Divisor}, []float32{loss}, 0)
}

func checkFile(t *testing.T, raw []byte, atLeast int) {
	t.Helper()
	var file struct{ Cases []torchCase }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < atLeast {
		t.Fatalf("%d cases, expected at least %d", len(file.Cases), atLeast)
	}
	for _, tc := range file.Cases {
		t.Run(tc.Name, tc.check)
	}
}

func TestOneStepEqualsTorch(t *testing.T) {
	for file, cases := range map[string]int{"random": 6, "regression": 4, "digits": 7} {
		raw, err := os.ReadFile("testdata/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		t.Run(file, func(t *testing.T) { checkFile(t, raw, cases) })
	}
}

// Real torch, where there is one, writes random.json anew.
func TestInteropTorch(t *testing.T) {
	python := os.Getenv("REJOIN_PYTHON")
	if python == "" {
		python = "python3"
	}
	out, err := exec.CommandContext(t.Context(), python, "../scripts/torch_model.py", "random").Output()
	if err != nil {
		if os.Getenv("REJOIN_INTEROP") == "1" {
			t.Fatalf("%s with torch is required by REJOIN_INTEROP=1: %v", python, err)
		}
		t.Skipf("%s has no torch: %v", python, err)
	}
	checkFile(t, out, 6)
}

// draws plays back torch.rand from a seed.
type draws struct{ left []float32 }

func (d *draws) UniformFloat32(dst []float32, low, high float32) {
	for i := range dst {
		dst[i] = float32(float64(d.left[i])*float64(high-low) + float64(low))
	}
	d.left = d.left[len(dst):]
}

func TestInitEqualsTorch(t *testing.T) {
	raw, err := os.ReadFile("testdata/init.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Sizes  []int
			Draws  array[float32]
			Params []struct {
				Name  string
				Value array[float32]
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, tc := range file.Cases {
		var layers bytes.Buffer
		for i := range len(tc.Sizes) - 1 {
			fmt.Fprintf(&layers, "  - {linear: [%d, %d], name: '%d'}\n  - relu\n", tc.Sizes[i], tc.Sizes[i+1], 2*i)
		}
		m := newModel(t, "layers:\n"+layers.String()+"loss: mse\ninput: x\ntarget: y\n", 1)
		d := &draws{tc.Draws}
		m.Init(d)
		if len(d.left) != 0 {
			t.Errorf("%v: %d draws left over", tc.Sizes, len(d.left))
		}
		for i, p := range m.Params() {
			if p.Name != tc.Params[i].Name {
				t.Fatalf("%v: parameter %d is %s, torch has %s", tc.Sizes, i, p.Name, tc.Params[i].Name)
			}
			for j, want := range tc.Params[i].Value {
				if p.Values[j] != want {
					t.Fatalf("%v: %s[%d] is %v, torch has %v", tc.Sizes, p.Name, j, p.Values[j], want)
				}
			}
		}
		paddingIsZero(t, m)
	}
}
