package trainer

import (
	"fmt"

	"rejoin/data"
)

// sampler says which rows this rank trains on, in which order: [data.Sampler] and
// [data.DistributedSampler] are.
type sampler interface {
	Validate() error
	// ValidateFrom is Validate for an epoch that goes on after consumedRows rows.
	ValidateFrom(consumedRows int) error
	BatchesPerEpoch() int
	// BatchesFrom is the number of batches of EpochFrom.
	BatchesFrom(consumedRows int) int
	// BatchCountsFrom is the number of batches with rows among each rank's
	// EpochFrom; only under join are there others.
	BatchCountsFrom(consumedRows int) []int
	Epoch(epoch int) [][]int
	// EpochFrom is an epoch without the first consumedRows rows of its order.
	EpochFrom(epoch, consumedRows int) [][]int
}

// The samplers that a run can name, as manifest.json does.
const (
	SeedableRandom = "seedable_random" // accelerate's, as under the Trainer
	Sequential     = "sequential"      // the same in the file's order
	Distributed    = "distributed"     // torch's DistributedSampler
)

// checkSampler refuses a name that is none of a sampler, and arguments that it
// cannot honour.
func checkSampler(name string, args *Arguments) error {
	switch name {
	case SeedableRandom, Sequential:
		return nil
	case Distributed:
		if args.SplitBatches || args.DispatchesBatches() {
			return fmt.Errorf("--sampler %s deals out rows by itself: leave accelerator_config.split_batches and dispatch_batches off", name)
		}
		return nil
	}
	return fmt.Errorf("--sampler: found %q, expected %s (the Trainer's), %s (in the file's order) or %s (torch's DistributedSampler)",
		name, SeedableRandom, Sequential, Distributed)
}

// newSampler makes the sampler of that name for one rank, and validates it. torch's
// DistributedSampler has seed 0 where no data_seed is given, not the run's seed.
func newSampler(name string, args *Arguments, rows, worldSize, rank int) (sampler, error) {
	if err := checkSampler(name, args); err != nil {
		return nil, err
	}
	var s sampler = data.Sampler{
		Rows: rows, BatchSize: args.PerDeviceTrainBatchSize, WorldSize: worldSize, Rank: rank,
		DropLast: args.DataloaderDropLast || args.UnevenRanks == unevenDrop, EvenBatches: args.pads(), Join: args.joins(), SplitBatches: args.SplitBatches,
		DispatchBatches: args.DispatchesBatches(), Sequential: name == Sequential, Seed: args.SamplerSeed(),
	}
	if name == Distributed {
		d := data.DistributedSampler{
			Rows: rows, BatchSize: args.PerDeviceTrainBatchSize, WorldSize: worldSize, Rank: rank,
			DropLast: args.UnevenRanks == unevenDrop, DropLastBatch: args.DataloaderDropLast, Join: args.joins(),
		}
		if args.DataSeed != nil {
			d.Seed = *args.DataSeed
		}
		s = d
	}
	return s, s.Validate()
}
