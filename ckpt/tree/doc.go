// Package tree flattens what a checkpoint holds, in package pyobj's values, into
// leaves by key path, so that tools can list and compare it.
//
// It promises to end, within bounds on depth and number, on any object: shared
// containers are followed each time, one that contains itself is not. It runs
// nothing and reads no elements.
package tree
