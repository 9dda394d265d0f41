// Package source opens what a person may name to a tool: a file, a shard index,
// a checkpoint directory, or a directory of checkpoints, of which it takes the
// newest complete one. It gives the files in it as parts, each with its leaves
// or with the error that kept it from being read.
//
// Files are described, not trusted: unknown classes are opaque objects, and
// nothing is run. It writes nothing.
package source
