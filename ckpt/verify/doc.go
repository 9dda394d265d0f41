// Package verify tells whether a checkpoint is whole: its structure, checksums,
// manifest, shard index and, if asked, that every element is finite and that
// the model it is of takes its weights and computes with them.
//
// It promises to list every problem that it finds, each with the file, the
// cause and the next step, and to name what could not be checked. It repairs
// nothing, and runs nothing but the model that it is given.
package verify
