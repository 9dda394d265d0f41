// Package collective is the process group: N ranks that sum, broadcast, gather
// and wait together, each call made by every rank in the same order.
//
// It promises:
//
//   - All ranks get the same bits, and the same bits again on every run with
//     the same size, lengths and segment size.
//   - No operation outlives its deadline. A rank that dies, freezes, is late or
//     calls something else ends the operation on every rank with an error that
//     names it: [PeerError], [DeadlineError], [MismatchError].
//   - Every message carries what operation it belongs to and of which
//     generation of the job; data of different operations never meets.
//
// After an error the group is finished: every later operation returns the same
// error. A new generation makes a new group. Contents of a buffer after an
// error are unspecified, except that a mismatch found before any data was
// exchanged in full leaves a reduction's buffer as it was.
//
// It does not find its peers (rendezvous does), restart them (launch does), or
// encrypt what it sends. Bytes move through a [Transport].
package collective
