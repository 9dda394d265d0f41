package plan

import "math/bits"

// Doubling is the recursive-doubling allreduce, in independent segments,
// inflight of them under way at a time. With two ranks it is a plain exchange.
//
// Every round stores a partial sum, so with more than two ranks the caller
// works on a copy if its data is to stay untouched on an error.
//
// With a size that is not a power of two, rank base+i first adds into rank i
// and receives the result at the end.
func Doubling(rank, size, length, segment, inflight int) Steps {
	parts := segments(Range{0, length}, max(segment, 1))
	d := doubling{rank: rank, rounds: bits.Len(uint(size)) - 1, extra: Nobody}
	d.base = 1 << d.rounds
	if rank+d.base < size {
		d.extra = rank + d.base
	}
	steps := d.rounds + 1
	if rank >= d.base {
		steps = 2
	}
	return pipeline(len(parts), steps, inflight, func(part, i int) Step {
		return d.step(parts[part], uint32(part*(d.rounds+2)), i)
	})
}

// doubling is one rank's place: base is the largest power of two ≤ size, and
// extra the rank that folds into this one.
type doubling struct{ rank, base, rounds, extra int }

// step is the i-th step of one segment. Message k of a segment, with the tag
// tag+k, is the fold for k = 0, round k-1 up to rounds, and the result after.
func (d doubling) step(r Range, tag uint32, i int) Step {
	result := tag + uint32(d.rounds) + 1
	if d.rank >= d.base {
		if i == 0 {
			return send(d.rank-d.base, r, tag)
		}
		return take(d.rank-d.base, Replace, r, result)
	}
	s := send(Nobody, r, 0)
	switch {
	case i > 0:
		peer := d.rank ^ 1<<(i-1)
		s = take(peer, AddRight, r, tag+uint32(i))
		if peer < d.rank {
			s.Combine = AddLeft
		}
	case d.extra != Nobody:
		s = take(d.extra, AddRight, r, tag)
	}
	switch {
	case i < d.rounds:
		s.To, s.SendTag = d.rank^1<<i, tag+uint32(i)+1
	case d.extra != Nobody:
		s.To, s.SendTag = d.extra, result
	}
	return s
}
