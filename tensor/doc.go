// Package tensor is the leaf that every other package may use: what a tensor
// is (dtype, shape, strides, a view of a storage), an ordered state dict, the
// rules of torch's map_location, and aligned float32 buffers to compute in.
//
// It promises that a Tensor never reaches outside its storage (see
// [Tensor.Check]) and that reading one converts exactly or returns an error.
// It does no arithmetic, opens no file and knows no network.
package tensor
