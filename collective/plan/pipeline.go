package plan

// pipeline carries out the steps of many independent pieces of work, inflight
// pieces at a time: each piece has the steps 0 … steps-1, and the pieces take
// turns, one step each. All ranks must use the same inflight; then messages
// between two ranks are received in the order they are sent, because of two
// messages of the same step the earlier piece's always goes first.
func pipeline(pieces, steps, inflight int, step func(piece, i int) Step) Steps {
	type position struct{ piece, i int }
	return func(yield func(Step) bool) {
		queue := make([]position, 0, inflight)
		next := 0
		for ; next < min(max(inflight, 1), pieces); next++ {
			queue = append(queue, position{next, 0})
		}
		for len(queue) > 0 {
			at := queue[0]
			queue = queue[1:]
			if !yield(step(at.piece, at.i)) {
				return
			}
			switch {
			case at.i+1 < steps:
				queue = append(queue, position{at.piece, at.i + 1})
			case next < pieces:
				queue = append(queue, position{next, 0})
				next++
			}
		}
	}
}
