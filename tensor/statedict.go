package tensor

import "fmt"

// StateDict maps parameter and buffer names to tensors and keeps their order.
type StateDict struct {
	names []string
	byKey map[string]*Tensor
}

// NewStateDict returns an empty state dict.
func NewStateDict() *StateDict { return &StateDict{byKey: map[string]*Tensor{}} }

// Set adds name at the end, or replaces its tensor in place.
func (s *StateDict) Set(name string, t *Tensor) {
	if _, ok := s.byKey[name]; !ok {
		s.names = append(s.names, name)
	}
	s.byKey[name] = t
}

// Get returns the tensor called name.
func (s *StateDict) Get(name string) (*Tensor, bool) {
	t, ok := s.byKey[name]
	return t, ok
}

// Names lists the keys in order; the caller must not change the slice.
func (s *StateDict) Names() []string { return s.names }

// Len is the number of keys.
func (s *StateDict) Len() int { return len(s.names) }

// ReadFloat32 fills dst with the tensor called name, whose shape must be exactly shape.
func (s *StateDict) ReadFloat32(dst []float32, name string, shape []int) error {
	t, ok := s.byKey[name]
	if !ok {
		return fmt.Errorf("key %q is missing", name)
	}
	if !t.SameShape(shape) {
		return fmt.Errorf("key %q has shape %v, expected %v", name, t.Shape, shape)
	}
	if err := t.ReadFloat32(dst); err != nil {
		return fmt.Errorf("key %q: %w", name, err)
	}
	return nil
}
