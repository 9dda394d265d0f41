// Package pyjson reads and writes JSON as Python's json module does, byte for
// byte: the literals NaN, Infinity and -Infinity, ints of any size told apart
// from floats, floats as repr() spells them, and text escaped to ASCII.
//
// The mapping, both ways:
//
//	None               nil
//	bool, int, float   bool, int64 (or *big.Int outside its range), float64
//	str                string; a lone surrogate is three bytes, as in WTF-8
//	list, dict         []any, map[string]any
//
// A dict's order is not kept: it is written with sort_keys=True, as the
// Trainer writes its state. Encode also takes an int.
//
// Source: json.encoder, json.decoder and float.__repr__ of CPython 3.13.
package pyjson
