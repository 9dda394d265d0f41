package pickle

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"rejoin/pyobj"
)

// numpyModules are where _reconstruct and scalar live: since numpy 2, and before.
var numpyModules = []string{"numpy._core.multiarray", "numpy.core.multiarray"}

// maxDims is numpy's limit of dimensions; torch's is the same.
const maxDims = 64

// numpy builds arrays and scalars of plain numeric types. Another array (of
// objects, of structures, of text) is left to the description.
// Source: numpy/_core/src/multiarray/methods.c, array_reduce and array_setstate.
func (c *converter) numpy(call *Call) (any, bool, error) {
	if call.Func == numpyDtype {
		return &pyobj.Object{Class: call.Func, Args: &pyobj.Tuple{Items: call.Args}, State: call.State, Called: true}, true, nil
	}
	if !slices.Contains(numpyModules, call.Func.Module) {
		return nil, false, nil
	}
	switch call.Func.Name {
	case "scalar":
		return c.numpyScalar(call)
	case "_reconstruct":
		return c.numpyArray(call)
	}
	return nil, false, nil
}

func (c *converter) numpyScalar(call *Call) (any, bool, error) {
	if len(call.Args) != 2 {
		return nil, false, nil
	}
	code, big, ok := numericDtype(call.Args[0])
	data, isBytes := call.Args[1].(pyobj.Bytes)
	if !ok || !isBytes {
		return nil, false, nil
	}
	if size := dtypeSize(code); len(data) != size {
		return nil, true, fmt.Errorf("a numpy scalar of dtype %s has %d bytes, expected %d", code, len(data), size)
	}
	return &pyobj.NumpyScalar{Dtype: code, BigEndian: big, Data: []byte(data), Module: call.Func.Module}, true, c.charge(len(data))
}

// numpyArray reads the state (version, shape, dtype, is Fortran, data).
func (c *converter) numpyArray(call *Call) (any, bool, error) {
	state, ok := call.State.(*pyobj.Tuple)
	if !ok || len(state.Items) != 5 || len(call.Args) != 3 || call.Args[0] != any(numpyNDArray) {
		return nil, false, nil
	}
	code, big, ok := numericDtype(state.Items[2])
	data, isBytes := state.Items[4].(pyobj.Bytes)
	fortran, isBool := state.Items[3].(bool)
	if !ok || !isBytes || !isBool {
		return nil, false, nil
	}
	shape, err := dimensions(state.Items[1])
	if err != nil {
		return nil, true, err
	}
	want := uint64(dtypeSize(code))
	for _, d := range shape {
		hi, lo := bits.Mul64(want, uint64(d))
		if hi != 0 {
			return nil, true, fmt.Errorf("a numpy array of shape %v overflows", shape)
		}
		want = lo
	}
	if uint64(len(data)) != want {
		return nil, true, fmt.Errorf("a numpy array of shape %v and dtype %s has %d bytes, expected %d", shape, code, len(data), want)
	}
	array := &pyobj.NDArray{Shape: shape, Dtype: code, BigEndian: big, Fortran: fortran, Data: []byte(data), Module: call.Func.Module}
	return array, true, c.charge(len(data))
}

// dimensions reads a tuple of sizes, none negative.
func dimensions(v any) ([]int, error) {
	items, err := pyobj.AsItems(v)
	if err != nil {
		return nil, fmt.Errorf("a shape: %w", err)
	}
	if len(items) > maxDims {
		return nil, fmt.Errorf("a shape has %d dimensions, at most %d are possible", len(items), maxDims)
	}
	shape := make([]int, len(items))
	for i, item := range items {
		n, ok := item.(int64)
		if !ok || n < 0 {
			return nil, fmt.Errorf("a shape holds %s %v, expected a size", pyobj.TypeName(item), item)
		}
		shape[i] = int(n)
	}
	return shape, nil
}

// numericDtype reads a numpy.dtype: its code, such as "f8", and byte order.
func numericDtype(v any) (code string, bigEndian, ok bool) {
	object, ok := v.(*pyobj.Object)
	if !ok || object.Class != numpyDtype || object.Args == nil || len(object.Args.Items) == 0 {
		return "", false, false
	}
	code, ok = object.Args.Items[0].(string)
	if !ok || dtypeSize(code) == 0 {
		return "", false, false
	}
	state, isTuple := object.State.(*pyobj.Tuple)
	if object.State == nil {
		return code, false, true
	}
	if !isTuple || len(state.Items) < 2 {
		return "", false, false
	}
	return code, state.Items[1] == any(">"), true
}

// dtypeSize is the size of a numeric dtype's element, 0 for any other.
func dtypeSize(code string) int {
	if len(code) < 2 {
		return 0
	}
	size, err := strconv.Atoi(code[1:])
	if err != nil {
		return 0
	}
	valid := map[byte][]int{'b': {1}, 'i': {1, 2, 4, 8}, 'u': {1, 2, 4, 8}, 'f': {2, 4, 8, 16}, 'c': {8, 16, 32}}
	if !slices.Contains(valid[code[0]], size) {
		return 0
	}
	return size
}
