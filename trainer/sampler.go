package trainer

import (
	"fmt"

	"rejoin/data"
)

// sampler says which rows one rank sees in each epoch.
type sampler interface {
	Validate() error
	BatchesPerEpoch() int
	Epoch(epoch int) [][]int
}

// The samplers, as --sampler and manifest.json name them.
const (
	seedableSampler    = "seedable_random" // accelerate's, which the Trainer uses
	distributedSampler = "distributed"     // torch's DistributedSampler, which scripts use
)

func checkSampler(name string) error {
	switch name {
	case "", seedableSampler, distributedSampler:
		return nil
	}
	return fmt.Errorf("sampler %q is not known, expected %s (accelerate's, which the Trainer uses) or %s (torch's DistributedSampler)", name, seedableSampler, distributedSampler)
}

// newSampler lays out this rank's part of rows.
func (r *run) newSampler(rows int) sampler {
	if r.job.Sampler == distributedSampler {
		return data.DistributedSampler{
			Rows: rows, BatchSize: r.args.PerDeviceTrainBatchSize, WorldSize: r.group.Size(), Rank: r.group.Rank(),
			DropLastBatch: r.args.DataloaderDropLast, Seed: r.args.SamplerSeed(),
		}
	}
	return data.Sampler{
		Rows: rows, BatchSize: r.args.PerDeviceTrainBatchSize, WorldSize: r.group.Size(), Rank: r.group.Rank(),
		DropLast: r.args.DataloaderDropLast, EvenBatches: r.args.EvenBatches, SplitBatches: r.args.SplitBatches,
		Seed: r.args.SamplerSeed(),
	}
}

// samplerName is the sampler's name in manifest.json.
func (j *Job) samplerName() string {
	if j.Sampler == "" {
		return seedableSampler
	}
	return j.Sampler
}
