package plan

// Broadcast sends root's data down a binomial tree, segment by segment, and
// lets empty acknowledgements come up again: root's last step is done when
// every rank has stored everything.
func Broadcast(rank, size, root, length, segment int) Steps {
	parent, children := tree(rank, size, root)
	parts := segments(Range{0, length}, max(segment, 1))
	ack := uint32(len(parts))
	return func(yield func(Step) bool) {
		for i, r := range parts {
			for _, s := range down(parent, children, r, uint32(i)) {
				if !yield(s) {
					return
				}
			}
		}
		for _, c := range children {
			if !yield(Step{From: c, To: Nobody, Combine: Replace, RecvTag: ack}) {
				return
			}
		}
		if parent != Nobody {
			yield(send(parent, Range{}, ack))
		}
	}
}

// down receives one segment and passes it to every child.
func down(parent int, children []int, r Range, tag uint32) []Step {
	steps := make([]Step, 0, len(children)+1)
	if parent != Nobody {
		steps = append(steps, take(parent, Replace, r, tag))
	}
	for _, c := range children {
		steps = append(steps, send(c, r, tag))
	}
	return steps
}

// tree places rank in the binomial tree rooted at root: the parent clears the
// lowest set bit of the relative rank, the children set a lower one. The
// largest subtree comes first.
func tree(rank, size, root int) (parent int, children []int) {
	rel := (rank - root + size) % size
	abs := func(v int) int { return (v + root) % size }
	low := rel & -rel
	parent = Nobody
	if rel == 0 {
		for low = 1; low < size; low <<= 1 {
		}
	} else {
		parent = abs(rel - low)
	}
	for bit := low >> 1; bit > 0; bit >>= 1 {
		if rel+bit < size {
			children = append(children, abs(rel+bit))
		}
	}
	return parent, children
}

// Barrier is the dissemination barrier: in round k every rank tells the one
// 2^k above it and hears from the one 2^k below.
func Barrier(rank, size int) Steps {
	return func(yield func(Step) bool) {
		tag := uint32(0)
		for d := 1; d < size; d <<= 1 {
			to, from := (rank+d)%size, (rank-d+size)%size
			if !yield(send(to, Range{}, tag)) || !yield(Step{From: from, To: Nobody, Combine: Replace, RecvTag: tag}) {
				return
			}
			tag++
		}
	}
}
