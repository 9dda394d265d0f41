// Package names matches the keys of a state dict to the parameters of a model.
//
// It promises that a key goes to a parameter only under its own name, or under
// that name with the same stack of wrapper prefixes ("module." of
// DistributedDataParallel, "_orig_mod." of torch.compile) on every key of the
// file, or under a tie that was recorded; that shapes are exactly equal; and
// that everything which does not fit is listed at once, in a [*MismatchError].
// It guesses nothing, renames nothing else, broadcasts nothing, and reads no
// elements.
package names
