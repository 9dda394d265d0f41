package plan

// Ring is the ring allreduce. The buffer is cut into blocks of at most
// size × segment elements; each block is a ring of its own, one chunk per
// rank, and inflight blocks are under way at a time.
//
// No step stores before its chunk has passed through all ranks: a rank whose
// neighbour disagrees stops with its data untouched. Each chunk's sum starts
// at the rank of its number and goes around upwards.
func Ring(rank, size, length, segment, inflight int) Steps {
	blocks := segments(Range{0, length}, size*max(segment, 1))
	rounds := 2 * (size - 1)
	return pipeline(len(blocks), rounds+1, inflight, func(block, i int) Step {
		return ringStep(rank, size, blocks[block], block*rounds, i)
	})
}

// ringStep is round s of one block: receive what the previous rank sent in
// round s-1, and pass the outcome on. Rounds 1 … P-1 reduce; the value of
// round P-1 is final, and the rounds after it hand final values on.
func ringStep(rank, size int, block Range, tag, s int) Step {
	prev, next := (rank+size-1)%size, (rank+1)%size
	c := chunk(block, ((rank-s)%size+size)%size, size)
	step := Step{From: prev, To: next, Range: c, RecvTag: uint32(tag + s - 1), SendTag: uint32(tag + s)}
	switch {
	case s == 0:
		step.From, step.Combine, step.RecvTag = Nobody, Own, 0
	case s < size:
		step.Combine, step.Store = AddLeft, s == size-1
	default:
		step.Combine, step.Store = Replace, true
	}
	if s == 2*(size-1) {
		step.To, step.SendTag = Nobody, 0
	}
	return step
}
