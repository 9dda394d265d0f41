package data

// DistributedSampler says which rows one rank sees in a script that gives torch's
// DistributedSampler to a DataLoader.
// Source: torch/utils/data/distributed.py, 2.14.
type DistributedSampler struct {
	// Rows is the number of rows of the table.
	Rows int
	// BatchSize is the DataLoader's: the rows of one rank's micro-batch.
	BatchSize int
	WorldSize int
	Rank      int

	// DropLast is the sampler's drop_last: it cuts the rows to a multiple of
	// WorldSize. Without it, the first rows are repeated up to one.
	DropLast bool
	// DropLastBatch is the DataLoader's drop_last: no short batch at the end.
	DropLastBatch bool
	// Join repeats no rows: later ranks may see one row less and, where that makes
	// a batch, end with an empty one. It excludes DropLast and DropLastBatch.
	Join bool

	// Sequential is shuffle=False.
	Sequential bool
	// Seed is the sampler's seed (torch's default is 0). Epoch e is shuffled with
	// Seed + e.
	Seed int64
}

// Validate returns a [*SamplerError] if the fields contradict each other or an
// epoch has no batch.
func (s DistributedSampler) Validate() error { return s.ValidateFrom(0) }

// ValidateFrom is [DistributedSampler.Validate] for an epoch that goes on after its
// first consumedRows rows; that nothing is left is no error then.
func (s DistributedSampler) ValidateFrom(consumedRows int) error {
	if err := validate(s.Rows, s.BatchSize, s.WorldSize, s.Rank); err != nil {
		return err
	}
	if consumedRows < 0 {
		return samplerError("%d rows of the epoch are said to be consumed, expected 0 or more", consumedRows)
	}
	if s.Join && (s.DropLast || s.DropLastBatch) {
		return samplerError("join and drop_last are two ways to deal with rows that do not fill a round: set one")
	}
	if s.BatchesPerEpoch() == 0 {
		return samplerError("each of %d ranks gets %d of %d rows, and drop_last leaves them out: nothing to train on; use a smaller batch or fewer ranks", s.WorldSize, s.samples(s.Rows), s.Rows)
	}
	return nil
}

// samples is the number of rows that each rank sees of those that are left of an
// epoch; under Join, the first rank.
func (s DistributedSampler) samples(left int) int {
	if s.DropLast {
		return left / s.WorldSize
	}
	return ceilDiv(left, s.WorldSize)
}

// mine is the number of rows that this rank sees of those that are left.
func (s DistributedSampler) mine(left int) int {
	if s.Join {
		return max(0, ceilDiv(left-s.Rank, s.WorldSize))
	}
	return s.samples(left)
}

// BatchesPerEpoch is the number of micro-batches of every rank in an epoch.
// s must be valid.
func (s DistributedSampler) BatchesPerEpoch() int { return s.BatchesFrom(0) }

// BatchesFrom is the length of what [DistributedSampler.EpochFrom] returns.
func (s DistributedSampler) BatchesFrom(consumedRows int) int {
	samples := s.samples(unconsumed(s.Rows, consumedRows))
	if s.DropLastBatch {
		return samples / s.BatchSize
	}
	return ceilDiv(samples, s.BatchSize)
}

// BatchCountsFrom is the number of batches with rows among each rank's
// [DistributedSampler.EpochFrom]. Only under Join may they differ.
func (s DistributedSampler) BatchCountsFrom(consumedRows int) []int {
	counts := make([]int, s.WorldSize)
	for rank := range counts {
		counts[rank] = s.BatchesFrom(consumedRows)
		if s.Rank = rank; s.Join {
			counts[rank] = ceilDiv(s.mine(unconsumed(s.Rows, consumedRows)), s.BatchSize)
		}
	}
	return counts
}

// Epoch returns this rank's micro-batches of an epoch (counted from 0), in order:
// row numbers of the table. s must be valid; the caller owns the result.
func (s DistributedSampler) Epoch(epoch int) [][]int { return s.EpochFrom(epoch, 0) }

// EpochFrom is [DistributedSampler.Epoch] after the first consumedRows rows of the
// epoch's order, as [Sampler.EpochFrom]. All ranks together see the order's rows
// from front to back, so after k batches of every rank k × BatchSize × WorldSize
// of them are consumed.
func (s DistributedSampler) EpochFrom(epoch, consumedRows int) [][]int {
	left := unconsumed(s.Rows, consumedRows)
	order := epochOrder(s.Rows, s.Sequential, s.Seed, epoch)
	mine := make([]int, s.mine(left))
	for i := range mine { // past the end, the rows repeat from the start
		mine[i] = order[(s.Rows-left+i*s.WorldSize+s.Rank)%s.Rows]
	}
	batches := make([][]int, s.BatchesFrom(consumedRows))
	for i := range batches {
		from := min(i*s.BatchSize, len(mine))
		to := min(from+s.BatchSize, len(mine))
		batches[i] = mine[from:to:to]
	}
	return batches
}
