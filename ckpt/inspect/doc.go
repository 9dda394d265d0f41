// Package inspect describes what a checkpoint holds, for people and for
// programs: every tensor as torch sees it, what it takes in the file and with
// whom it shares that, every other value, the optimizer, the devices it was
// saved on and what wrote it.
//
// It promises to run nothing in a file and to read tensors' elements only for
// their hashes. Whether a file is whole is package verify's question.
package inspect
