package collective

import (
	"context"
	"encoding/binary"
	"fmt"

	"rejoin/collective/plan"
	"rejoin/collective/wire"
)

const (
	// doublingBytes is the largest reduction done in log2 P rounds rather than
	// around the ring.
	doublingBytes = 64 << 10
	// inflight is how many segments are under way per pair of ranks; with their
	// acknowledgements fewer than a transport must buffer.
	inflight = 4
)

// AllReduceSum replaces buf by the sum over all ranks, element by element. The
// order of summation depends on the length and the group's size and settings
// only, and all ranks get the same bits.
func (g *Group) AllReduceSum(ctx context.Context, buf []float32) error {
	return g.allReduce(ctx, wire.AllReduceSum, buf, 1)
}

// AllReduceMean replaces buf by the mean over all ranks, as torch's
// DistributedDataParallel forms it: each rank's elements are multiplied by
// float32(1/size) first and then summed.
func (g *Group) AllReduceMean(ctx context.Context, buf []float32) error {
	return g.allReduce(ctx, wire.AllReduceMean, buf, float32(1/float64(g.cfg.Size)))
}

func (g *Group) allReduce(ctx context.Context, op wire.Op, buf []float32, scale float32) error {
	fp := wire.Fingerprint{Op: op, DType: wire.Float32, Length: uint64(len(buf))}
	return g.operate(ctx, fp, func(ctx context.Context, fp wire.Fingerprint) error {
		rank, size, segment := g.cfg.Rank, g.cfg.Size, g.cfg.SegmentBytes/4
		switch {
		case size == 1:
			return nil // 1/1 is 1: the mean is the input too
		case size == 2:
			return g.run(ctx, fp, plan.Doubling(rank, size, len(buf), segment, inflight), &floats{buf, scale})
		case len(buf)*4 <= doublingBytes:
			part := scaled(buf, scale)
			defer part.free()
			if err := g.run(ctx, fp, plan.Doubling(rank, size, len(buf), segment, inflight), &floats{part.values, 1}); err != nil {
				return err
			}
			copy(buf, part.values)
			return nil
		}
		return g.run(ctx, fp, plan.Ring(rank, size, len(buf), segment, inflight), &floats{buf, scale})
	})
}

// Broadcast copies root's buf into every other rank's, which must have the same
// length. When it returns without error on any rank but the leaves of the tree,
// the ranks below have it; on root, all have.
func (g *Group) Broadcast(ctx context.Context, buf []byte, root int) error {
	return g.broadcast(ctx, wire.Uint8, len(buf), root, octets(buf))
}

// BroadcastFloat32 is Broadcast of float32 values.
func (g *Group) BroadcastFloat32(ctx context.Context, buf []float32, root int) error {
	return g.broadcast(ctx, wire.Float32, len(buf), root, &floats{buf, 1})
}

func (g *Group) broadcast(ctx context.Context, t wire.DType, n, root int, data operand) error {
	if root < 0 || root >= g.cfg.Size {
		return fmt.Errorf("%w: broadcast from root %d, expected 0 to %d", ErrConfig, root, g.cfg.Size-1)
	}
	fp := wire.Fingerprint{Op: wire.Broadcast, DType: t, Length: uint64(n), Root: uint32(root)}
	return g.operate(ctx, fp, func(ctx context.Context, fp wire.Fingerprint) error {
		if g.cfg.Size == 1 {
			return nil
		}
		return g.run(ctx, fp, plan.Broadcast(g.cfg.Rank, g.cfg.Size, root, n, g.cfg.SegmentBytes/t.Size()), data)
	})
}

// AllGather returns every rank's bytes, by rank. Sizes may differ. The result
// is new memory, of which the caller becomes the owner.
func (g *Group) AllGather(ctx context.Context, mine []byte) ([][]byte, error) {
	var parts [][]byte
	n := 8 * g.cfg.Size
	fp := wire.Fingerprint{Op: wire.GatherSizes, DType: wire.Uint8, Length: uint64(n)}
	err := g.operate(ctx, fp, func(ctx context.Context, fp wire.Fingerprint) error {
		offsets, err := g.gatherSizes(ctx, fp, len(mine))
		if err != nil {
			return err
		}
		all := make([]byte, offsets[g.cfg.Size])
		copy(all[offsets[g.cfg.Rank]:], mine)
		fp.Op, fp.Length = wire.Gather, uint64(len(all))
		if err := g.run(ctx, fp, plan.Gather(g.cfg.Rank, offsets, g.cfg.SegmentBytes), octets(all)); err != nil {
			return err
		}
		for i := range g.cfg.Size {
			parts = append(parts, all[offsets[i]:offsets[i+1]:offsets[i+1]])
		}
		return nil
	})
	return parts, err
}

// gatherSizes exchanges the sizes of all parts and returns where each begins,
// and where the last ends.
func (g *Group) gatherSizes(ctx context.Context, fp wire.Fingerprint, mine int) ([]int, error) {
	sizes := make([]byte, fp.Length)
	binary.LittleEndian.PutUint64(sizes[8*g.cfg.Rank:], uint64(mine))
	at := make([]int, g.cfg.Size+1)
	for i := range at {
		at[i] = 8 * i
	}
	if err := g.run(ctx, fp, plan.Gather(g.cfg.Rank, at, g.cfg.SegmentBytes), octets(sizes)); err != nil {
		return nil, err
	}
	limit := uint64(g.cfg.MaxGatherBytes)
	offsets, total, each := make([]int, g.cfg.Size+1), uint64(0), make([]uint64, g.cfg.Size)
	for i := range each {
		each[i] = binary.LittleEndian.Uint64(sizes[8*i:])
		if total += min(each[i], limit+1); total <= limit {
			offsets[i+1] = int(total)
		}
	}
	if total > limit {
		return nil, &SizeError{each, g.cfg.MaxGatherBytes}
	}
	return offsets, nil
}

// Barrier returns when every rank has called it.
func (g *Group) Barrier(ctx context.Context) error {
	fp := wire.Fingerprint{Op: wire.Barrier, DType: wire.None}
	return g.operate(ctx, fp, func(ctx context.Context, fp wire.Fingerprint) error {
		return g.run(ctx, fp, plan.Barrier(g.cfg.Rank, g.cfg.Size), octets(nil))
	})
}
