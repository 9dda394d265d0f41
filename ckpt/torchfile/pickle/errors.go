package pickle

import (
	"fmt"

	"rejoin/pyobj"
)

// StreamError is a pickle that breaks the rules of its opcodes.
type StreamError struct {
	Offset  int    // of the opcode, in bytes from the pickle's start
	Opcode  string // its name in Python's pickletools; "" at the end of the data
	Problem string
	// Short marks a pickle that needs more bytes than there are.
	Short bool
}

func (e *StreamError) Error() string {
	if e.Opcode == "" {
		return fmt.Sprintf("pickle, byte %d: %s", e.Offset, e.Problem)
	}
	return fmt.Sprintf("pickle, byte %d, %s: %s", e.Offset, e.Opcode, e.Problem)
}

// ValueError is a pickle that is well formed but holds a value that cannot be.
type ValueError struct {
	KeyPath string // such as "state.0.exp_avg"; "" for the whole object
	Err     error
}

func (e *ValueError) Error() string {
	if e.KeyPath == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("at key %s: %v", e.KeyPath, e.Err)
}

func (e *ValueError) Unwrap() error { return e.Err }

// UnsupportedGlobalError is a class or function that a pickle asks for and that
// is not known to be plain data. Nothing of it was run.
type UnsupportedGlobalError struct {
	Path    string // the file; "" if not read from one
	Global  pyobj.Global
	KeyPath string // where the object needs it; "" if it is at the top or never used
	// Forbidden marks what is refused even where unknown classes are only described.
	Forbidden bool
}

func (e *UnsupportedGlobalError) Error() string {
	where := ""
	if e.Path != "" {
		where = e.Path + ": "
	}
	at := "the object"
	if e.KeyPath != "" {
		at = "key " + e.KeyPath
	}
	if e.Forbidden {
		return fmt.Sprintf("%s%s asks to call %v, which could run commands when loaded in Python; nothing was run. Do not trust this file", where, at, e.Global)
	}
	return fmt.Sprintf("%s%s is made by %v, which is not plain data; nothing was run. Save tensors and plain values only (a state_dict), or inspect the file, which describes such objects", where, at, e.Global)
}
