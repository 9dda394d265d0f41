// Package ckpt opens a checkpoint by what it holds, not by its name: a file of
// torch.save in any of its containers, or safetensors. It finds the model's
// state dict in it.
//
// The packages below do the reading and writing: torchfile, safetensors. This
// one decides between them. It does not know directories of a Trainer (package
// hf does), nor models: matching names to parameters is the caller's.
package ckpt
