package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// ParseSpec reads a model.yaml:
//
//	layers:                       # a stack; name = the state_dict prefix
//	  - {linear: [64, 32], name: backbone.0}
//	  - relu
//	  - {linear: [32, 10], name: backbone.2, bias: false}   # bias: true if left out
//	loss: cross_entropy           # or mse
//	input: x                      # data columns
//	target: label
//
// It is strict: what it does not know is a [*SpecError], which gives the line.
func ParseSpec(text []byte) (*Spec, error) {
	root, err := document(text)
	if err != nil {
		return nil, err
	}
	fields, err := mapping(root, "layers", "loss", "input", "target")
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"layers", "loss", "input", "target"} {
		if fields[key] == nil {
			return nil, &SpecError{root.Line, fmt.Errorf("%s is missing", key)}
		}
	}
	s := &Spec{}
	if s.input, err = nonEmpty(fields["input"], "input"); err != nil {
		return nil, err
	}
	if s.target, err = nonEmpty(fields["target"], "target"); err != nil {
		return nil, err
	}
	if s.input == s.target {
		return nil, &SpecError{fields["target"].Line, fmt.Errorf("input and target are the same column %q", s.input)}
	}
	if s.loss, err = parseLoss(fields["loss"]); err != nil {
		return nil, err
	}
	if s.layers, err = parseLayers(fields["layers"]); err != nil {
		return nil, err
	}
	if n := s.OutputSize(); s.loss == CrossEntropy && n < 2 {
		return nil, &SpecError{fields["loss"].Line, fmt.Errorf("cross_entropy needs at least 2 classes, the last layer gives %d", n)}
	}
	return s, nil
}

// document parses text as one YAML document.
func document(text []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, &SpecError{0, errors.New("it is empty")}
	} else if err != nil {
		return nil, &SpecError{0, err} // the library's text has the line
	}
	if err := dec.Decode(&more); err == nil {
		return nil, &SpecError{more.Line, errors.New("a second YAML document begins here, expected one")}
	} else if !errors.Is(err, io.EOF) {
		return nil, &SpecError{0, err}
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, &SpecError{doc.Line, errors.New("it is empty")}
	}
	return doc.Content[0], nil
}

// mapping is the mapping n by key; keys that are not known, or come twice, are errors.
func mapping(n *yaml.Node, known ...string) (map[string]*yaml.Node, error) {
	if n.Kind != yaml.MappingNode {
		return nil, &SpecError{n.Line, fmt.Errorf("expected keys %v, found %s", known, kindName(n))}
	}
	fields := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		index := -1
		for j, k := range known {
			if key.Kind == yaml.ScalarNode && key.Value == k {
				index = j
			}
		}
		if index < 0 {
			return nil, &SpecError{key.Line, fmt.Errorf("unknown key %q, expected one of %v", key.Value, known)}
		}
		if fields[key.Value] != nil {
			return nil, &SpecError{key.Line, fmt.Errorf("key %q comes twice", key.Value)}
		}
		fields[key.Value] = n.Content[i+1]
	}
	return fields, nil
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "nothing"
		}
		return fmt.Sprintf("%q", n.Value)
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	case yaml.AliasNode:
		return "an alias"
	default:
		return "something else"
	}
}

// nonEmpty is a scalar that is not empty.
func nonEmpty(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		return "", &SpecError{n.Line, fmt.Errorf("%s must be a name, found %s", what, kindName(n))}
	}
	return n.Value, nil
}

func parseLoss(n *yaml.Node) (Loss, error) {
	switch l := Loss(n.Value); {
	case n.Kind == yaml.ScalarNode && (l == MSE || l == CrossEntropy):
		return l, nil
	default:
		return "", &SpecError{n.Line, fmt.Errorf("loss is %s, expected mse or cross_entropy", kindName(n))}
	}
}

func parseLayers(n *yaml.Node) ([]Layer, error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, &SpecError{n.Line, fmt.Errorf("layers must be a list of layers, found %s", kindName(n))}
	}
	var layers []Layer
	check := &stackCheck{names: map[string]int{}}
	for _, item := range n.Content {
		layer, err := parseLayer(item)
		if err == nil {
			err = check.add(layer, item.Line)
		}
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	if check.last == nil {
		return nil, &SpecError{n.Line, errors.New("there is no linear layer, so nothing to train")}
	}
	return layers, nil
}

// stackCheck holds the invariants of Spec while layers come in.
type stackCheck struct {
	names      map[string]int // the line of each
	last       *Layer         // the last linear one
	parameters int
}

func (c *stackCheck) add(l Layer, line int) error {
	if l.Kind != Linear {
		return nil
	}
	if before, ok := c.names[l.Name]; ok {
		return &SpecError{line, fmt.Errorf("name %q is used twice, first in line %d", l.Name, before)}
	}
	c.names[l.Name] = line
	if c.last != nil && c.last.Out != l.In {
		return &SpecError{line, fmt.Errorf("layer %q takes %d inputs, but layer %q before it gives %d", l.Name, l.In, c.last.Name, c.last.Out)}
	}
	c.last = &l
	// In and Out are at most MaxParameters, so the product fits.
	if c.parameters += l.In*l.Out + l.Out; c.parameters > MaxParameters {
		return &SpecError{line, fmt.Errorf("with layer %q the model has more than %d parameters", l.Name, MaxParameters)}
	}
	return nil
}

func parseLayer(n *yaml.Node) (Layer, error) {
	if n.Kind == yaml.ScalarNode {
		if Kind(n.Value) == ReLU {
			return Layer{Kind: ReLU}, nil
		}
		return Layer{}, &SpecError{n.Line, fmt.Errorf("unknown layer %s, expected relu or {linear: [in, out], name: …}", kindName(n))}
	}
	fields, err := mapping(n, "linear", "name", "bias")
	if err != nil {
		return Layer{}, err
	}
	for _, key := range []string{"linear", "name"} {
		if fields[key] == nil {
			return Layer{}, &SpecError{n.Line, fmt.Errorf("the layer has no %s, expected {linear: [in, out], name: …}", key)}
		}
	}
	l := Layer{Kind: Linear, Bias: true}
	if l.Name, err = nonEmpty(fields["name"], "name"); err != nil {
		return Layer{}, err
	}
	if b := fields["bias"]; b != nil {
		if b.Tag != "!!bool" || b.Decode(&l.Bias) != nil {
			return Layer{}, &SpecError{b.Line, fmt.Errorf("bias must be true or false, found %s", kindName(b))}
		}
	}
	l.In, l.Out, err = sizes(fields["linear"])
	return l, err
}

// sizes reads [in, out].
func sizes(n *yaml.Node) (in, out int, err error) {
	var pair []int
	if n.Kind != yaml.SequenceNode || len(n.Content) != 2 || n.Decode(&pair) != nil {
		return 0, 0, &SpecError{n.Line, errors.New("linear must be [in, out], two whole numbers")}
	}
	for i, size := range pair {
		if item := n.Content[i]; item.Tag != "!!int" || size < 1 || size > MaxParameters {
			return 0, 0, &SpecError{item.Line, fmt.Errorf("size %s of a linear layer is not a whole number from 1 to %d", item.Value, MaxParameters)}
		}
	}
	return pair[0], pair[1], nil
}
