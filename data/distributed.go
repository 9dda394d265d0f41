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

	// Sequential is shuffle=False.
	Sequential bool
	// Seed is the sampler's seed (torch's default is 0). Epoch e is shuffled with
	// Seed + e.
	Seed int64
}

// Validate returns a [*SamplerError] if the fields contradict each other or an
// epoch has no batch.
func (s DistributedSampler) Validate() error {
	if err := validate(s.Rows, s.BatchSize, s.WorldSize, s.Rank); err != nil {
		return err
	}
	if s.BatchesPerEpoch() == 0 {
		return samplerError("each of %d ranks gets %d of %d rows, and drop_last leaves them out: nothing to train on; use a smaller batch or fewer ranks", s.WorldSize, s.samples(), s.Rows)
	}
	return nil
}

// samples is the number of rows that each rank sees in an epoch.
func (s DistributedSampler) samples() int {
	if s.DropLast {
		return s.Rows / s.WorldSize
	}
	return ceilDiv(s.Rows, s.WorldSize)
}

// BatchesPerEpoch is the number of micro-batches of every rank in an epoch.
// s must be valid.
func (s DistributedSampler) BatchesPerEpoch() int {
	if s.DropLastBatch {
		return s.samples() / s.BatchSize
	}
	return ceilDiv(s.samples(), s.BatchSize)
}

// Epoch returns this rank's micro-batches of an epoch (counted from 0), in order:
// row numbers of the table. s must be valid; the caller owns the result.
func (s DistributedSampler) Epoch(epoch int) [][]int {
	order := epochOrder(s.Rows, s.Sequential, s.Seed, epoch)
	mine := make([]int, s.samples())
	for i := range mine { // past the end, the rows repeat from the start
		mine[i] = order[(i*s.WorldSize+s.Rank)%s.Rows]
	}
	batches := make([][]int, s.BatchesPerEpoch())
	for i := range batches {
		to := min((i+1)*s.BatchSize, len(mine))
		batches[i] = mine[i*s.BatchSize : to : to]
	}
	return batches
}
