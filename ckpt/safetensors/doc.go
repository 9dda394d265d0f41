// Package safetensors reads and writes Hugging Face's safetensors files.
//
// A file is mapped into memory; its tensors are views of the mapping. Every
// dtype of the format is listed, also those that this program cannot compute
// with ([File.Unsupported]); names are taken byte for byte, and a name that
// stands twice, a hole, an overlap or a length that is not there is refused.
//
// What [Write] writes is, byte for byte, what the safetensors library 0.8
// writes, but for metadata of several keys, which that library leaves in random
// order and this one sorts.
//
// The format: https://github.com/huggingface/safetensors#format.
package safetensors
