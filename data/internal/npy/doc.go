// Package npy reads the headers of NumPy's NPY files: where an array's elements
// lie, of which type and shape, also in structured arrays.
//
// It runs no pickle: arrays of Python objects are refused. It does not read
// elements.
//
// Format: numpy/lib/format.py, versions 1.0 to 3.0.
package npy
