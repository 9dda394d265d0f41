package pyobj

import "rejoin/tensor"

// Bytes is a Python bytes value.
type Bytes string

// ByteArray is a Python bytearray.
type ByteArray struct{ Data []byte }

// List is a Python list.
type List struct{ Items []any }

// Tuple is a Python tuple.
type Tuple struct{ Items []any }

// Set is a Python set, or a frozenset; the order is the pickle's.
type Set struct {
	Items  []any
	Frozen bool
}

// Global names a class or function, as GLOBAL does in a pickle.
type Global struct{ Module, Name string }

func (g Global) String() string { return g.Module + "." + g.Name }

// Object is an instance of a class that is only described: how the pickle said
// it would be made, with nothing executed.
type Object struct {
	Class Global
	// Args are the arguments of __new__ or of the callable; nil for none.
	Args *Tuple
	// State is what BUILD was given: mostly a *Dict of attributes; nil for none.
	State any
	// Called tells a call of Class (REDUCE) from an instance of it (NEWOBJ).
	Called bool
	// Items and Pairs are what APPENDS and SETITEMS added to it.
	Items []any
	Pairs *Dict
}

// Attr returns the attribute called name, when State is a dict of attributes.
func (o *Object) Attr(name string) (any, bool) {
	d, ok := o.State.(*Dict)
	if !ok {
		return nil, false
	}
	return d.Get(name)
}

// Parameter is a torch.nn.Parameter; its tensor carries requires_grad.
type Parameter struct {
	Data  *tensor.Tensor
	State any // extra attributes; nil for none
}

// TypedTensor is a tensor of a subclass of torch.Tensor, or one with attributes
// of its own, as nn.Buffer makes it.
type TypedTensor struct {
	Data  *tensor.Tensor
	Class Global
	State any // its attributes; nil for none
}

// TypedStorage is a storage that stands by itself, not under a tensor.
type TypedStorage struct {
	Class   Global // such as torch.FloatStorage
	DType   tensor.DType
	Storage *tensor.Storage
	// NumElements counts elements of DType; for torch.storage.UntypedStorage, bytes.
	NumElements int
}

// Size is a torch.Size.
type Size []int

// Device is a torch.device, spelled as str() spells it, such as "cuda:1".
type Device string

// NDArray is a numpy array: elements in C order, or Fortran's if Fortran is set.
type NDArray struct {
	Shape []int
	// Dtype is numpy's code without the byte order, such as "u4" or "f8".
	Dtype     string
	BigEndian bool
	Fortran   bool
	Data      []byte
	// Module is where the file found _reconstruct: "numpy._core.multiarray"
	// since numpy 2, "numpy.core.multiarray" before; kept for writing.
	Module string
}

// NumpyScalar is a numpy scalar such as np.float64(1.5).
type NumpyScalar struct {
	Dtype     string
	BigEndian bool
	Data      []byte
	Module    string
}
