package data

import (
	"fmt"
	"math"

	"rejoin/rng"
)

// Sampler says which rows one rank sees under transformers' Trainer. It is
// accelerate's SeedableRandomSampler, cut into batches by torch's BatchSampler and
// dealt out to the ranks by BatchSamplerShard or, under DispatchBatches, by
// DataLoaderDispatcher; a single rank gets the batches of BatchSampler unchanged,
// whatever EvenBatches, SplitBatches and DispatchBatches say.
//
// Rows that do not fill a last round for all ranks are padded (EvenBatches),
// dropped (DropLast) or joined (Join), as declared; without any of these, the last
// round is short, and Validate refuses it if it leaves a rank without a batch.
//
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
	// Join lets ranks that get none of a short last round take part with an empty
	// batch, so that all count equally many and none waits for the rest. It
	// excludes EvenBatches, DropLast and DispatchBatches, and is not accelerate's.
	Join bool
	// DispatchBatches divides a short last round by its number of rows, as rank 0
	// would that had read it: all ranks get equally many, filled up with the first
	// rows of the epoch, and EvenBatches has no say (dispatch_batches). The rounds
	// before are as without it.
	DispatchBatches bool

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
func (s Sampler) Validate() error { return s.ValidateFrom(0) }

// ValidateFrom is [Sampler.Validate] for an epoch that goes on after its first
// consumedRows rows; that nothing is left is no error then.
func (s Sampler) ValidateFrom(consumedRows int) error {
	if err := validate(s.Rows, s.BatchSize, s.WorldSize, s.Rank); err != nil {
		return err
	}
	if consumedRows < 0 {
		return samplerError("%d rows of the epoch are said to be consumed, expected 0 or more", consumedRows)
	}
	switch {
	case s.SplitBatches && s.BatchSize%s.WorldSize != 0:
		return samplerError("split_batches cuts a batch of %d rows for %d ranks: the batch size must be a multiple of the world size", s.BatchSize, s.WorldSize)
	case s.Join && (s.EvenBatches || s.DropLast || s.DispatchBatches):
		return samplerError("join is one way to deal with a short last round, even_batches, drop_last and dispatch_batches are others: set one")
	case s.dispatch() && s.Rows < s.WorldSize:
		return samplerError("dispatch_batches cannot divide %d rows among %d ranks; use fewer ranks", s.Rows, s.WorldSize)
	case s.DropLast && s.Rows < s.round():
		return samplerError("%d rows are fewer than one round of %d (%d ranks × %d), and drop_last leaves them out: nothing to train on; use a smaller batch or fewer ranks", s.Rows, s.round(), s.WorldSize, s.perRank())
	}
	rest := unconsumed(s.Rows, consumedRows) % s.round()
	if counts := s.BatchCountsFrom(consumedRows); rest > 0 && !s.Join && counts[0] != counts[len(counts)-1] {
		return samplerError("the last %d rows make a batch for only %d of %d ranks: the others would have one batch less; set even_batches, drop_last or join", rest, ceilDiv(rest, s.perRank()), s.WorldSize)
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

func (s Sampler) dispatch() bool { return s.DispatchBatches && s.WorldSize > 1 }

// lastRound gives this rank's part of a last round of rest rows: n rows from the
// row at offset on, in the order of the epoch. Past its end they are its first.
func (s Sampler) lastRound(rest int) (offset, n int) {
	b := s.perRank()
	switch {
	case rest == 0 || s.DropLast:
		return 0, 0
	case s.dispatch():
		n = ceilDiv(rest, s.WorldSize)
		return s.Rank * n, n
	case s.even():
		return s.Rank * b, b
	default:
		return s.Rank * b, min(b, max(0, rest-s.Rank*b))
	}
}

// BatchesPerEpoch is the number of micro-batches of this rank in an epoch: the
// length of what [Sampler.Epoch] returns. s must be valid.
func (s Sampler) BatchesPerEpoch() int { return s.BatchesFrom(0) }

// BatchesFrom is the length of what [Sampler.EpochFrom] returns.
func (s Sampler) BatchesFrom(consumedRows int) int {
	left := unconsumed(s.Rows, consumedRows)
	n, rest := left/s.round(), left%s.round()
	if _, last := s.lastRound(rest); last > 0 || s.Join && rest > 0 {
		n++
	}
	return n
}

// BatchCountsFrom is the number of batches with rows among each rank's
// [Sampler.EpochFrom]. Only under Join may a valid sampler's differ.
func (s Sampler) BatchCountsFrom(consumedRows int) []int {
	left := unconsumed(s.Rows, consumedRows)
	counts := make([]int, s.WorldSize)
	for rank := range counts {
		s.Rank = rank
		counts[rank] = left / s.round()
		if _, n := s.lastRound(left % s.round()); n > 0 {
			counts[rank]++
		}
	}
	return counts
}

// Epoch returns this rank's micro-batches of an epoch (counted from 0), in order:
// row numbers of the table. s must be valid; the caller owns the result.
func (s Sampler) Epoch(epoch int) [][]int { return s.EpochFrom(epoch, 0) }

// EpochFrom is [Sampler.Epoch] after the first consumedRows rows of the epoch's
// order, whatever world size and batch size they were consumed under: the rest is
// dealt out in rounds, and a last round is filled with the epoch's first rows. If
// consumedRows is a multiple of this sampler's round, it is the tail of Epoch.
// There are no batches once all rows are consumed.
func (s Sampler) EpochFrom(epoch, consumedRows int) [][]int {
	at := s.Rows - unconsumed(s.Rows, consumedRows)
	order := epochOrder(s.Rows, s.Sequential, s.Seed, epoch)
	b, round := s.perRank(), s.round()
	batches := make([][]int, 0, s.BatchesFrom(consumedRows))
	for ; round <= s.Rows-at; at += round {
		from := at + s.Rank*b
		batches = append(batches, order[from:from+b:from+b])
	}
	rest := s.Rows - at
	if offset, n := s.lastRound(rest); n > 0 || s.Join && rest > 0 {
		batches = append(batches, wrapped(order, at+offset, n))
	}
	return batches
}

// unconsumed is the number of rows left of an epoch. Padding may have been
// consumed beyond its end.
func unconsumed(rows, consumedRows int) int {
	return rows - min(max(consumedRows, 0), rows)
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
