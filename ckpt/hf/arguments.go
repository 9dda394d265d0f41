package hf

import (
	"fmt"

	"rejoin/pyobj"
)

// Arguments are training arguments by the Trainer's names. A value is nil,
// bool, int64, *big.Int, float64 or string (an enum's value, such as "cosine"),
// []any, or map[string]any (accelerator_config, distributed_state).
type Arguments map[string]any

// ArgumentError says that an argument has a value of the wrong kind.
type ArgumentError struct {
	Name  string
	Value any
	Want  string
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("training argument %s: expected %s, found %s %v", e.Name, e.Want, typeName(e.Value), e.Value)
}

// Int is the argument called name, or fallback if it is not there or None.
func (a Arguments) Int(name string, fallback int) (int, error) {
	v := a[name]
	if v == nil {
		return fallback, nil
	}
	n, err := pyobj.AsInt(v)
	if err != nil {
		return 0, &ArgumentError{name, v, "an int"}
	}
	return int(n), nil
}

// Float is the argument called name, or fallback if it is not there or None.
func (a Arguments) Float(name string, fallback float64) (float64, error) {
	v := a[name]
	if v == nil {
		return fallback, nil
	}
	f, err := pyobj.AsFloat(v)
	if err != nil {
		return 0, &ArgumentError{name, v, "a number"}
	}
	return f, nil
}

// Bool is the argument called name, or fallback if it is not there or None.
func (a Arguments) Bool(name string, fallback bool) (bool, error) {
	return argument(a, name, fallback, "a bool")
}

// String is the argument called name, or fallback if it is not there or None.
func (a Arguments) String(name, fallback string) (string, error) {
	return argument(a, name, fallback, "a str")
}

// Map is the argument called name, or nil if it is not there or None.
func (a Arguments) Map(name string) (Arguments, error) {
	m, err := argument[map[string]any](a, name, nil, "a dict")
	return m, err
}

func argument[T any](a Arguments, name string, fallback T, want string) (T, error) {
	v := a[name]
	if v == nil {
		return fallback, nil
	}
	t, ok := v.(T)
	if !ok {
		return fallback, &ArgumentError{name, v, want}
	}
	return t, nil
}

// WorldSize is the number of ranks of the run that saved the arguments; 0 if
// they do not tell.
func (a Arguments) WorldSize() int {
	state, err := a.Map("distributed_state")
	if err != nil {
		return 0
	}
	n, err := state.Int("num_processes", 0)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
