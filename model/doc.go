// Package model builds the architectures that Rejoin trains from a description,
// model.yaml, and holds their parameters.
//
// It promises torch's names and order (named_parameters of an nn.Module with
// these layers), torch's initialisation, and torch's loss and gradients to
// float32 rounding, given the same parameters and batch. All parameters lie in
// one flat buffer and all gradients in another, each parameter at a 64-byte
// boundary, so that optimizers and collectives work on runs of memory.
//
// A description or a state dict that does not fit gives one error that lists
// all that is wrong, and changes nothing. The package reads no file, and knows
// neither optimizers nor the network.
package model
