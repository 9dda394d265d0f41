package torchfile

import (
	"errors"
	"fmt"

	"rejoin/ckpt/torchfile/pickle"
	"rejoin/tensor"
)

// Fault is the kind of a [FormatError], for callers that choose what to do next.
type Fault uint8

// The faults told apart.
const (
	Corrupt     Fault = iota // the structure contradicts itself
	Truncated                // the file ends before its content does, or was never written
	NotTorch                 // the file is something else
	Unsupported              // a real torch file, of a kind that is not read
)

// FormatError says what is wrong with a file.
type FormatError struct {
	Path    string
	Fault   Fault
	Where   string // such as "record data/0"; "" for the whole file
	Problem string
	Next    string // what to do; "" where nothing helps
	Err     error  // the cause, if another error tells it
}

func (e *FormatError) Error() string {
	msg := e.Path + ": "
	if e.Where != "" {
		msg += e.Where + ": "
	}
	msg += e.Problem
	if e.Err != nil {
		if e.Problem != "" {
			msg += ": "
		}
		msg += e.Err.Error()
	}
	if e.Next != "" {
		msg += "; " + e.Next
	}
	return msg
}

func (e *FormatError) Unwrap() error { return e.Err }

// UnsupportedGlobalError is a class or function that the file asks for and that
// is not plain data.
type UnsupportedGlobalError = pickle.UnsupportedGlobalError

const useAnother = "use another checkpoint, or copy it again"

func corrupt(where, format string, args ...any) *FormatError {
	return &FormatError{Where: where, Problem: fmt.Sprintf(format, args...), Next: useAnother}
}

func truncated(where, format string, args ...any) *FormatError {
	e := corrupt(where, format, args...)
	e.Fault = Truncated
	return e
}

// inFile puts the file's name on an error.
func inFile(path string, err error) error {
	if err == nil {
		return nil
	}
	if global, ok := errors.AsType[*UnsupportedGlobalError](err); ok {
		global.Path = path
		return global
	}
	var value *pickle.ValueError
	keyPath := ""
	if errors.As(err, &value) && value.KeyPath != "" {
		keyPath = "key " + value.KeyPath
	}
	var format *FormatError
	if errors.As(err, &format) {
		format.Path = path
		if keyPath != "" {
			format.Where = keyPath + ": " + format.Where
		}
		return format
	}
	format = &FormatError{Path: path, Where: keyPath, Err: err}
	if keyPath != "" {
		format.Err = value.Err
	}
	if _, ok := errors.AsType[*tensor.LocationError](err); !ok {
		format.Next = useAnother
	}
	return format
}
