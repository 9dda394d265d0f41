// Package shm is memory that two processes of one host share, in one direction:
// a [Writer] puts payloads into slots, and the peer's [Reader] reads them there
// and gives the slots back. What says which slot to read, a [wire.Place],
// travels by other means, in order.
//
// It promises:
//
//   - A region is RegionBytes of address space at most, and memory only where a
//     slot has been used; the lowest free slot is taken, so few are.
//   - It has no name in any file system. When both processes have ended, however
//     they did, nothing is left behind.
//   - Both ends agree on what they share: a reader opens only an object that
//     holds the random token of the offer, and whose size is sealed, so that no
//     access to it can fail.
//   - No number of a place is trusted: slot, length and turn are checked.
//   - A slot is not used again before its reader has released it, and memory
//     stays mapped until everything taken from it has been released.
//
// Nothing here waits. A writer without a free slot says so, and the payload
// goes another way.
//
// It needs Linux's memfd and /proc, and two processes that see each other there:
// with other pid namespaces or users, Create or Open fail and say why.
package shm
