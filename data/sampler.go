package data

import (
	"fmt"
	"math"

	"rejoin/rng"
)

// Sampler says which rows one rank sees under transformers' Trainer. It is
// accelerate's SeedableRandomSampler, cut into batches by torch's BatchSampler and
// dealt out to the ranks by BatchSamplerShard; a single rank gets the batches of
// BatchSampler unchanged, whatever EvenBatches and SplitBatches say.
// Source: accelerate/data_loader.py, 1.14 and 1.15.
type Sampler struct {
	// Rows is the number of rows of the table.
	Rows int
	// BatchSize is the Trainer's per_device_train_batch_size: the rows of one
	// rank's micro-batch or, under SplitBatches, of all ranks' together.
	BatchSize int
	WorldSize int
	Rank      int

	// DropLast leaves out the rows after the last whole round, a round being one
	// full batch for every rank (dataloader_drop_last).
	DropLast bool
	// EvenBatches fills a last, short round with the first rows of the epoch, so
	// that all ranks have equally many batches of equal size (even_batches, on by
	// default in accelerate). Without it and DropLast the last round stays short.
	EvenBatches bool
	// SplitBatches cuts each batch into one piece a rank; BatchSize must be a
	// multiple of WorldSize (split_batches).
	SplitBatches bool

	// Sequential reads in file order (train_sampling_strategy "sequential").
	Sequential bool
	// Seed is data_seed, or seed where that is None. Epoch e is shuffled with
	// Seed + e.
	Seed int64
}

// SamplerError says why a sampler cannot give batches.
type SamplerError struct{ Problem string }

func (e *SamplerError) Error() string { return "sampler: " + e.Problem }

func samplerError(format string, args ...any) error {
	return &SamplerError{fmt.Sprintf(format, args...)}
}

// Validate returns a [*SamplerError] if the fields contradict each other, if an
// epoch has no batch, or if some ranks would have more batches than others: these
// would wait for the rest for ever.
func (s Sampler) Validate() error {
	if err := validate(s.Rows, s.BatchSize, s.WorldSize, s.Rank); err != nil {
		return err
	}
	if s.SplitBatches && s.BatchSize%s.WorldSize != 0 {
		return samplerError("split_batches cuts a batch of %d rows for %d ranks: the batch size must be a multiple of the world size", s.BatchSize, s.WorldSize)
	}
	rest := s.Rows % s.round()
	switch {
	case s.DropLast && s.Rows < s.round():
		return samplerError("%d rows are fewer than one round of %d (%d ranks × %d), and drop_last leaves them out: nothing to train on; use a smaller batch or fewer ranks", s.Rows, s.round(), s.WorldSize, s.perRank())
	case rest > 0 && !s.DropLast && !s.even() && ceilDiv(rest, s.perRank()) < s.WorldSize:
		return samplerError("the last %d rows make a batch for only %d of %d ranks: the others would have one batch less; set even_batches or drop_last", rest, ceilDiv(rest, s.perRank()), s.WorldSize)
	}
	return nil
}

func validate(rows, batch, world, rank int) error {
	switch {
	case rows < 1:
		return samplerError("there are %d rows: nothing to train on", rows)
	case batch < 1:
		return samplerError("the batch size is %d, expected at least 1", batch)
	case world < 1:
		return samplerError("the world size is %d, expected at least 1", world)
	case rank < 0 || rank >= world:
		return samplerError("rank %d is not in a world of %d", rank, world)
	case batch > math.MaxInt/world:
		return samplerError("a batch of %d rows for each of %d ranks overflows", batch, world)
	}
	return nil
}

// perRank is the number of rows of one rank's full micro-batch.
func (s Sampler) perRank() int {
	if s.SplitBatches {
		return s.BatchSize / s.WorldSize
	}
	return s.BatchSize
}

// round is the number of rows that all ranks take in one full round.
func (s Sampler) round() int { return s.perRank() * s.WorldSize }

func (s Sampler) even() bool { return s.EvenBatches && s.WorldSize > 1 }

// BatchesPerEpoch is the number of micro-batches of this rank in an epoch: the
// length of what [Sampler.Epoch] returns. s must be valid.
func (s Sampler) BatchesPerEpoch() int {
	n, rest := s.Rows/s.round(), s.Rows%s.round()
	switch {
	case rest == 0 || s.DropLast:
		return n
	case s.even() || rest > s.Rank*s.perRank():
		return n + 1
	default:
		return n
	}
}

// Epoch returns this rank's micro-batches of an epoch (counted from 0), in order:
// row numbers of the table. s must be valid; the caller owns the result.
func (s Sampler) Epoch(epoch int) [][]int {
	order := epochOrder(s.Rows, s.Sequential, s.Seed, epoch)
	b, round := s.perRank(), s.round()
	batches := make([][]int, 0, s.BatchesPerEpoch())
	whole := s.Rows - s.Rows%round
	for from := s.Rank * b; from < whole; from += round {
		batches = append(batches, order[from:from+b:from+b])
	}
	if whole == s.Rows || s.DropLast {
		return batches
	}
	if s.even() {
		return append(batches, wrapped(order, whole+s.Rank*b, b))
	}
	if from := whole + s.Rank*b; from < s.Rows {
		to := min(from+b, s.Rows)
		batches = append(batches, order[from:to:to])
	}
	return batches
}

// wrapped returns n elements of order, from index on, going on at its start as
// often as needed.
func wrapped(order []int, from, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = order[(from+i)%len(order)]
	}
	return out
}

// epochOrder is the order in which an epoch visits the rows.
func epochOrder(rows int, sequential bool, seed int64, epoch int) []int {
	if !sequential {
		return rng.New(uint64(seed) + uint64(epoch)).Perm(rows)
	}
	order := make([]int, rows)
	for i := range order {
		order[i] = i
	}
	return order
}

// ceilDiv is a/b rounded up, for a ≥ 0 and b > 0.
func ceilDiv(a, b int) int {
	if a%b > 0 {
		return a/b + 1
	}
	return a / b
}
