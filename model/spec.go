package model

import "fmt"

// Loss is a loss function's name.
type Loss string

// The losses.
const (
	MSE          Loss = "mse"           // nn.MSELoss: mean over all elements
	CrossEntropy Loss = "cross_entropy" // nn.CrossEntropyLoss: mean over rows, class -100 ignored
)

// Kind is a layer's kind.
type Kind string

// The kinds of layer.
const (
	Linear Kind = "linear"
	ReLU   Kind = "relu"
)

// Layer is one layer of a stack.
type Layer struct {
	Kind Kind
	// In, Out, Name and Bias are a linear layer's: its weight is [Out, In], and
	// Name is the prefix of its keys in a state dict.
	In, Out int
	Name    string
	Bias    bool
}

// Spec is a model's description, as [ParseSpec] reads it. Its invariants:
//
//  1. There is a linear layer; each takes as many inputs as the one before gives.
//  2. Names are not empty and are unique; sizes are at least 1.
//  3. The parameters together are at most [MaxParameters].
type Spec struct {
	layers        []Layer
	loss          Loss
	input, target string
}

// MaxParameters is the largest number of parameters that a description may ask for.
const MaxParameters = 1 << 30

// Layers are the layers in order; the caller must not change the slice.
func (s *Spec) Layers() []Layer { return s.layers }

// Loss is the loss function.
func (s *Spec) Loss() Loss { return s.loss }

// Input names the data column that is fed to the first layer.
func (s *Spec) Input() string { return s.input }

// Target names the data column that the loss compares with.
func (s *Spec) Target() string { return s.target }

// InputSize is the number of columns of the input.
func (s *Spec) InputSize() int {
	for _, l := range s.layers {
		if l.Kind == Linear {
			return l.In
		}
	}
	return 0
}

// OutputSize is the number of columns of the last layer's output: the target's
// for mse, the number of classes for cross_entropy.
func (s *Spec) OutputSize() int {
	size := 0
	for _, l := range s.layers {
		if l.Kind == Linear {
			size = l.Out
		}
	}
	return size
}

// SpecError is what is wrong with a description, and where.
type SpecError struct {
	Line int // from 1; 0 for the whole
	Err  error
}

func (e *SpecError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("model description: %v", e.Err)
	}
	return fmt.Sprintf("model description, line %d: %v", e.Line, e.Err)
}

func (e *SpecError) Unwrap() error { return e.Err }
