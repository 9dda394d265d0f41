// Package torchfile reads every container that torch.save has written (zip,
// legacy, tar) and writes the one it writes now, without Python.
//
// A file is mapped into memory; tensors are views of the mapping, so opening
// costs the pickle and no more. Nothing that a file names is executed, and
// neither memory nor time is spent on what it merely claims. What is wrong with
// a file is said in plain words by [FormatError], [UnsupportedGlobalError] or
// torch's own [tensor.LocationError].
//
// What [Write] writes is, byte for byte, what torch 2.14 writes for the same
// object, with three choices of its own: equal strings are one object (CPython
// writes a second, equal string object again), every storage is tagged "cpu",
// and a view takes only its own elements along unless another tensor of the
// object shares its storage.
//
// It does not read TorchScript, sparse, nested or quantized tensors: they are
// named and refused, or described as opaque objects where [Options.Describe] is set.
package torchfile
