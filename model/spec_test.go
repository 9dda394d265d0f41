package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const digitsYAML = `layers:
  - {linear: [64, 32], name: backbone.0}
  - relu
  - {linear: [32, 10], name: backbone.2, bias: false}
loss: cross_entropy
input: x
target: label
`

func ExampleParseSpec() {
	spec, err := ParseSpec([]byte(`
layers:
  - {linear: [10, 1], name: fc}
loss: mse
input: x
target: y
`))
	fmt.Println(spec.Layers(), spec.Loss(), spec.Input(), spec.Target(), err)
	_, err = ParseSpec([]byte("layers:\n  - {linear: [10, 4], name: a}\n  - {linear: [5, 1], name: b}\nloss: mse\ninput: x\ntarget: y\n"))
	fmt.Println(err)
	// Output:
	// [{linear 10 1 fc true}] mse x y <nil>
	// model description, line 3: layer "b" takes 5 inputs, but layer "a" before it gives 4
}

func TestParseSpec(t *testing.T) {
	s, err := ParseSpec([]byte(digitsYAML))
	if err != nil {
		t.Fatal(err)
	}
	want := []Layer{{Linear, 64, 32, "backbone.0", true}, {Kind: ReLU}, {Linear, 32, 10, "backbone.2", false}}
	if !slices.Equal(s.Layers(), want) {
		t.Errorf("layers %v, want %v", s.Layers(), want)
	}
	if s.Loss() != CrossEntropy || s.Input() != "x" || s.Target() != "label" || s.InputSize() != 64 || s.OutputSize() != 10 {
		t.Errorf("%v %v %v %v %v", s.Loss(), s.Input(), s.Target(), s.InputSize(), s.OutputSize())
	}
}

func TestParseSpecErrors(t *testing.T) {
	edit := func(old, replacement string) string { return strings.Replace(digitsYAML, old, replacement, 1) }
	for _, tc := range []struct {
		name, text string
		line       int
		want       string
	}{
		{"empty", "", 0, "empty"},
		{"only a comment", "# nothing\n", 0, "empty"},
		{"not YAML", "layers: [", 0, "line 1"},
		{"a list", "- relu\n", 1, "expected keys"},
		{"second document", digitsYAML + "---\nx: 1\n", 8, "second YAML document"},
		{"unknown key", digitsYAML + "optimizer: adam\n", 8, `unknown key "optimizer"`},
		{"key twice", digitsYAML + "loss: mse\n", 8, "twice"},
		{"no loss", edit("loss: cross_entropy\n", ""), 1, "loss is missing"},
		{"unknown loss", edit("cross_entropy", "hinge"), 5, `"hinge", expected mse or cross_entropy`},
		{"loss is a list", edit("cross_entropy", "[mse]"), 5, "a list, expected"},
		{"empty input", edit("input: x", "input: ''"), 6, "input must be a name"},
		{"null input", edit("input: x", "input:"), 6, "found nothing"},
		{"input is target", edit("label", "x"), 7, "same column"},
		{"layers are a word", "layers: relu\nloss: mse\ninput: x\ntarget: y\n", 1, "must be a list"},
		{"no layers", "layers: []\nloss: mse\ninput: x\ntarget: y\n", 1, "must be a list"},
		{"only relu", "layers: [relu]\nloss: mse\ninput: x\ntarget: y\n", 1, "nothing to train"},
		{"unknown layer", edit("- relu", "- gelu"), 3, `unknown layer "gelu"`},
		{"unknown layer key", edit("bias: false", "dropout: 0.1"), 4, `unknown key "dropout"`},
		{"no name", edit(", name: backbone.0", ""), 2, "no name"},
		{"empty name", edit("name: backbone.0", `name: ""`), 2, "must be a name"},
		{"no sizes", edit("linear: [64, 32], ", ""), 2, "no linear"},
		{"name twice", edit("backbone.2", "backbone.0"), 4, `used twice, first in line 2`},
		{"sizes do not chain", edit("[32, 10]", "[31, 10]"), 4, "takes 31 inputs"},
		{"three sizes", edit("[32, 10]", "[32, 10, 1]"), 4, "[in, out]"},
		{"size of zero", edit("[32, 10]", "[32, 0]"), 4, "size 0"},
		{"negative size", edit("[64, 32]", "[-64, 32]"), 2, "size -64"},
		{"a fraction", edit("[64, 32]", "[64.5, 32]"), 2, "size 64.5"},
		{"a whole fraction", edit("[64, 32]", "[64.0, 32]"), 2, "64.0"},
		{"a word", edit("[64, 32]", "[many, 32]"), 2, "whole numbers"},
		{"huge size", edit("[64, 32]", "[9999999999999999999999, 32]"), 2, "whole numbers"},
		{"too large", edit("[64, 32]", "[1073741824, 1073741824]"), 2, "more than 1073741824 parameters"},
		{"bias is a word", edit("bias: false", "bias: no thanks"), 4, "true or false"},
		{"bias is a number", edit("bias: false", "bias: 0"), 4, "true or false"},
		{"one class", edit("[32, 10]", "[32, 1]"), 5, "at least 2 classes"},
		{"alias", "layers: &a [relu]\nloss: *a\ninput: x\ntarget: y\n", 2, "an alias"},
	} {
		s, err := ParseSpec([]byte(tc.text))
		var se *SpecError
		if s != nil || !errors.As(err, &se) || se.Line != tc.line || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q in line %d", tc.name, err, tc.want, tc.line)
		}
	}
}

// Whatever the text, there is a valid Spec or an error.
func FuzzParseSpec(f *testing.F) {
	f.Add([]byte(digitsYAML))
	f.Add([]byte("layers: [relu, {linear: [1, 2], name: a, bias: true}]\nloss: mse\ninput: x\ntarget: y\n"))
	f.Add([]byte("a: &a [*a, *a]\nlayers: *a"))
	f.Add([]byte("? {? [x]}\n<<: {}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseSpec(text)
		if err != nil {
			if _, ok := errors.AsType[*SpecError](err); !ok {
				t.Fatalf("an error of type %T: %v", err, err)
			}
			return
		}
		check := &stackCheck{names: map[string]int{}}
		for _, l := range s.Layers() {
			if err := check.add(l, 0); err != nil || l.Kind == Linear && (l.In < 1 || l.Out < 1 || l.Name == "") {
				t.Fatalf("layer %+v: %v", l, err)
			}
		}
		if check.last == nil || s.Input() == "" || s.Target() == "" || s.Loss() != MSE && s.Loss() != CrossEntropy {
			t.Fatalf("invalid: %+v", s)
		}
	})
}
