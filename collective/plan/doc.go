// Package plan holds the collective algorithms as pure step machines: for one
// rank, the steps in order, each saying which range to receive from whom, how
// to combine it with this rank's own data, and whom to send the outcome to.
// A plan does no I/O and holds no data; package collective carries it out.
//
// It promises, for every number of ranks, length and segment size:
//
//   - messages between two ranks are received in the order they are sent;
//   - every rank ends with the same expression over the inputs, so with the
//     same bits: an element is reduced by one tree, copied where it is not
//     computed, and both ranks of an exchange put the lower rank's part left;
//   - a transport that buffers inflight messages per pair of ranks, or one for
//     the plans without that parameter, cannot deadlock.
//
// The algorithms, for S elements and P ranks:
//
//	Ring       2(P-1) rounds, 2(P-1)/P·S sent per rank; reduce-scatter then
//	           all-gather (Patarasuk and Yuan 2009), in independent blocks
//	Doubling   log2 P rounds of S; ranks beyond a power of two fold in first
//	           and are told last (Thakur, Rabenseifner and Gropp 2005)
//	Broadcast  binomial tree, then acknowledgements up the tree
//	Gather     P-1 rounds around the ring
//	Barrier    dissemination, ceil(log2 P) rounds (Hensgen, Finkel, Manber 1988)
package plan
