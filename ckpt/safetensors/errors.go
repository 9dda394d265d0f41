package safetensors

import "fmt"

// FormatError says what is wrong with a file.
type FormatError struct {
	Path string
	// Truncated marks a file that ends before its tensors do.
	Truncated bool
	Where     string // such as "tensor fc.weight"; "" for the whole file
	Problem   string
	Next      string // what to do
}

func (e *FormatError) Error() string {
	msg := e.Path + ": "
	if e.Where != "" {
		msg += e.Where + ": "
	}
	msg += e.Problem
	if e.Next != "" {
		msg += "; " + e.Next
	}
	return msg
}

const useAnother = "use another checkpoint, or copy it again"

func corrupt(where, format string, args ...any) *FormatError {
	return &FormatError{Where: where, Problem: fmt.Sprintf(format, args...), Next: useAnother}
}

// UnsupportedDTypeError is a tensor of a type that cannot be written.
type UnsupportedDTypeError struct {
	Name  string // the tensor's
	DType string
}

func (e *UnsupportedDTypeError) Error() string {
	return fmt.Sprintf("tensor %s: safetensors has no dtype %s; convert it first, or write it with torch.save", e.Name, e.DType)
}
