package trainer

import (
	"context"
)

// Bucket capacities in bytes, torch DistributedDataParallel's: the first one is
// small so that reducing starts early.
const (
	firstBucketBytes = 1 << 20
	bucketBytes      = 25 << 20
)

// bucket is a run of the flat gradient that is averaged in one operation.
type bucket struct {
	from, to int // elements of the flat gradient
	params   int // parameters whose gradients lie in it
}

// buckets divides parameters, given by their element ranges in the flat
// gradient, into buckets from the last parameter to the first: the order in
// which backward finishes them. It depends on the model alone, so that every
// rank, and every resumed run, sums in the same order.
func buckets(offsets []int, total int) (out []bucket, ofParam []int) {
	ofParam = make([]int, len(offsets))
	end, capacity := total, firstBucketBytes/4
	current := bucket{from: end, to: end}
	for i := len(offsets) - 1; i >= 0; i-- {
		if current.params > 0 && current.to-offsets[i] > capacity {
			out = append(out, current)
			capacity = bucketBytes / 4
			current = bucket{from: current.from, to: current.from}
		}
		current.from = offsets[i]
		current.params++
		ofParam[i] = len(out)
	}
	if current.params > 0 {
		out = append(out, current)
	}
	return out, ofParam
}

// reducer averages gradients over ranks while backward still computes others.
// One goroutine, which lives from begin to wait, reduces the buckets strictly
// in order. The ranks' wishes travel behind the last parameter's gradient, in
// the first bucket, so that agreeing on them costs no operation of its own.
type reducer struct {
	group   Group
	grads   []float32 // and the wishes
	wishes  []float32 // the last elements of grads
	buckets []bucket
	ofParam []int

	missing []int // parameters not yet ready, by bucket
	next    int   // the first bucket not yet handed over
	ready   chan bucket
	done    chan error
}

// newReducer reduces grads, whose capacity must have room for the wishes.
func newReducer(g Group, grads []float32, offsets []int) *reducer {
	bs, ofParam := buckets(offsets, len(grads))
	bs[0].to += numWishes
	all := grads[:len(grads)+numWishes]
	return &reducer{group: g, grads: all, wishes: all[len(grads):], buckets: bs, ofParam: ofParam, missing: make([]int, len(bs))}
}

// begin makes ready for one backward, with what this rank wishes to follow the
// step; wait or cancel must follow it.
func (r *reducer) begin(ctx context.Context, mine wishes) {
	mine.put(r.wishes)
	for i, b := range r.buckets {
		r.missing[i] = b.params
	}
	r.next = 0
	r.done = make(chan error, 1)
	if r.group.Size() == 1 || len(r.buckets) == 1 {
		r.ready = nil
		return
	}
	ready := make(chan bucket, len(r.buckets))
	r.ready = ready
	go func() {
		var err error
		for b := range ready {
			if err == nil {
				err = r.group.AllReduceMean(ctx, r.grads[b.from:b.to])
			}
		}
		r.done <- err
	}()
}

// gradientReady tells that a parameter's gradient is final. It is called on the
// goroutine that runs backward, once for each parameter.
func (r *reducer) gradientReady(param int) {
	if r.ready == nil {
		return
	}
	r.missing[r.ofParam[param]]--
	for r.next < len(r.buckets) && r.missing[r.next] == 0 {
		r.ready <- r.buckets[r.next]
		r.next++
	}
}

// allReady tells that every gradient is final.
func (r *reducer) allReady() {
	for i := range r.ofParam {
		r.gradientReady(i)
	}
}

// agreed is what any rank wished for, the same on every rank; valid after wait.
func (r *reducer) agreed() wishes { return wishesIn(r.wishes) }

// wait returns when every gradient is averaged, or an operation failed.
func (r *reducer) wait(ctx context.Context) error {
	if r.group.Size() == 1 {
		return nil
	}
	if r.ready == nil { // one bucket: a hand-off would only cost
		b := r.buckets[0]
		return r.group.AllReduceMean(ctx, r.grads[b.from:b.to])
	}
	close(r.ready)
	return <-r.done
}

// cancel ends a backward that failed: what was handed over is still awaited,
// the rest is not reduced.
func (r *reducer) cancel() error {
	if r.ready == nil {
		return nil
	}
	close(r.ready)
	return <-r.done
}
