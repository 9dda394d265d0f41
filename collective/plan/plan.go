package plan

import "iter"

// Nobody as a peer means that the step does not receive, or does not send.
const Nobody = -1

// Range is the elements [Lo, Hi) of an operation.
type Range struct{ Lo, Hi int }

// Len returns the number of elements.
func (r Range) Len() int { return r.Hi - r.Lo }

// Combine says what a step's value is made of.
type Combine uint8

const (
	// Own takes this rank's own data; nothing is received.
	Own Combine = iota
	// Replace takes the received data.
	Replace
	// AddLeft takes received + own, the received value on the left.
	AddLeft
	// AddRight takes own + received.
	AddRight
)

// Step is one thing that a rank does: receive a range, combine it, store the
// value as its own data, send it. Any part may be absent.
type Step struct {
	From    int // receive from this rank, or Nobody (then Combine is Own)
	To      int // send to this rank, or Nobody
	Combine Combine
	Store   bool // the value becomes this rank's own data of the range
	Range   Range
	RecvTag uint32 // tag of the message received
	SendTag uint32 // tag of the message sent
}

// Steps is a rank's part of an operation.
type Steps = iter.Seq[Step]

// send is a step that only sends own data.
func send(to int, r Range, tag uint32) Step {
	return Step{From: Nobody, To: to, Range: r, SendTag: tag}
}

// take is a step that stores what it receives and sends it nowhere.
func take(from int, how Combine, r Range, tag uint32) Step {
	return Step{From: from, To: Nobody, Combine: how, Store: true, Range: r, RecvTag: tag}
}

// segments cuts r into pieces of at most size elements; an empty r is one
// empty piece, so that even an operation on nothing meets all its ranks.
func segments(r Range, size int) []Range {
	out := make([]Range, 0, r.Len()/size+1)
	for lo := r.Lo; lo < r.Hi; lo += size {
		out = append(out, Range{lo, min(lo+size, r.Hi)})
	}
	if len(out) == 0 {
		out = append(out, r)
	}
	return out
}

// chunk returns the i-th of n nearly equal parts of r.
func chunk(r Range, i, n int) Range {
	at := func(k int) int {
		q, m := r.Len()/n, r.Len()%n
		return r.Lo + k*q + min(k, m)
	}
	return Range{at(i), at(i + 1)}
}
