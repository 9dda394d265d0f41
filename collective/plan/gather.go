package plan

// Gather passes every rank's part around the ring. Part i is the elements
// [offsets[i], offsets[i+1]), so offsets has one entry more than there are
// ranks, and parts may differ in length.
//
// In every round a rank sends one part and receives another, a segment of each
// in turn; a rank never sends a segment before it has received the one that
// precedes it, so no ring of full buffers can form.
func Gather(rank int, offsets []int, segment int) Steps {
	size := len(offsets) - 1
	prev, next := (rank+size-1)%size, (rank+1)%size
	parts := make([][]Range, size)
	first := make([]uint32, size+1) // tag of each part's first segment
	for i := range parts {
		parts[i] = segments(Range{offsets[i], offsets[i+1]}, max(segment, 1))
		first[i+1] = first[i] + uint32(len(parts[i]))
	}
	return func(yield func(Step) bool) {
		for s := range size - 1 {
			out, in := (rank-s+size)%size, (rank-s-1+size)%size
			for i := range max(len(parts[out]), len(parts[in])) {
				if i < len(parts[out]) && !yield(send(next, parts[out][i], first[out]+uint32(i))) {
					return
				}
				if i < len(parts[in]) && !yield(take(prev, Replace, parts[in][i], first[in]+uint32(i))) {
					return
				}
			}
		}
	}
}
