// Package compare says where two checkpoints differ: keys, shapes, dtypes,
// elements (largest absolute, relative and ULP difference, first differing
// element) and every value that is no tensor.
//
// It promises that what it calls equal is equal bit for bit, unless tolerances
// were given; and that a key which only one side has is never matched with
// another by guessing. It writes nothing.
package compare
