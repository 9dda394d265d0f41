package model

import (
	"fmt"
	"strings"

	"rejoin/tensor"
)

// ShapeMismatch is a key whose tensor has another shape than the model's.
type ShapeMismatch struct {
	Name      string
	Got, Want []int
}

// MismatchError lists every way in which a state dict does not fit a model.
type MismatchError struct {
	Missing    []string // of the model, not in the state dict
	Unexpected []string // in the state dict, not of the model
	Shapes     []ShapeMismatch
}

func (e *MismatchError) Error() string {
	var b strings.Builder
	b.WriteString("the weights do not fit the model:")
	if len(e.Missing) > 0 {
		fmt.Fprintf(&b, "\n  missing: %s", strings.Join(e.Missing, ", "))
	}
	if len(e.Unexpected) > 0 {
		fmt.Fprintf(&b, "\n  unexpected: %s", strings.Join(e.Unexpected, ", "))
	}
	for _, s := range e.Shapes {
		fmt.Fprintf(&b, "\n  %s: the file has shape %v, the model %v", s.Name, s.Got, s.Want)
	}
	b.WriteString("\nuse the model description that the weights were trained with")
	return b.String()
}

// Load copies a state dict into the parameters, one tensor after the other, so
// that it takes no memory beside them. Names and shapes must be exactly
// the model's; otherwise the error is a [*MismatchError] that lists all that
// differs, and the parameters are as before.
func (m *Model) Load(sd *tensor.StateDict) error {
	mismatch := &MismatchError{}
	known := map[string]bool{}
	for _, p := range m.params {
		known[p.Name] = true
		if t, ok := sd.Get(p.Name); !ok {
			mismatch.Missing = append(mismatch.Missing, p.Name)
		} else if !t.SameShape(p.Shape) {
			mismatch.Shapes = append(mismatch.Shapes, ShapeMismatch{p.Name, t.Shape, p.Shape})
		}
	}
	for _, name := range sd.Names() {
		if !known[name] {
			mismatch.Unexpected = append(mismatch.Unexpected, name)
		}
	}
	if len(mismatch.Missing)+len(mismatch.Unexpected)+len(mismatch.Shapes) > 0 {
		return mismatch
	}
	// Nothing is overwritten before all are known to be readable.
	for _, p := range m.params {
		t, _ := sd.Get(p.Name)
		if err := t.CheckFloat32(); err != nil {
			return fmt.Errorf("read the weights: key %q: %w", p.Name, err)
		}
	}
	for _, p := range m.params {
		if err := sd.ReadFloat32(p.Values, p.Name, p.Shape); err != nil {
			return fmt.Errorf("read the weights: %w", err)
		}
	}
	return nil
}

// StateDict copies the parameters, in named_parameters() order.
func (m *Model) StateDict() *tensor.StateDict { return m.stateDict(tensor.FromFloat32) }

// StateDictView is StateDict without the copy: it is valid until the parameters change.
func (m *Model) StateDictView() *tensor.StateDict { return m.stateDict(tensor.ViewFloat32) }

func (m *Model) stateDict(of func([]float32, ...int) *tensor.Tensor) *tensor.StateDict {
	sd := tensor.NewStateDict()
	for _, p := range m.params {
		sd.Set(p.Name, of(p.Values, p.Shape...))
	}
	return sd
}
