// Package convert writes a checkpoint anew: torch's zip format or safetensors,
// in one file or in shards, in another dtype, under other names.
//
// It promises that elements are the same bits, or the nearest of the dtype that
// was asked for, with what was lost said; that nothing is renamed, left out or
// copied apart without a note; that tied tensors stay tied; and that files
// appear whole under their names and replace none unless told to.
//
// It runs nothing: a file with objects of unknown classes gives up its model's
// weights and no more.
package convert
