// Package pyobj is Python's values as Go data: what a pickle holds, without a
// Python to run it. Readers of pickles produce these values, writers take them,
// and the packages between look things up in them.
//
// The mapping, both ways:
//
//	None                      nil
//	bool, float, complex      bool, float64, complex128
//	int                       int64, or *big.Int outside its range
//	str, bytes, bytearray     string, Bytes, *ByteArray
//	list, tuple, dict         *List, *Tuple, *Dict
//	set, frozenset            *Set
//	a class or function       Global
//	any other object          *Object, described and never run
//	torch.Tensor, Parameter   *tensor.Tensor, *Parameter
//	a tensor of a subclass    *TypedTensor
//	a storage by itself       *TypedStorage
//	torch.Size, device, dtype Size, Device, tensor.DType
//	numpy arrays and scalars  *NDArray, *NumpyScalar
//
// Pointers carry identity: two places that hold the same pointer held the same
// Python object, and are written as one.
//
// It reads and writes no file; ckpt/torchfile does.
package pyobj
