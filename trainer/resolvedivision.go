package trainer

import (
	"fmt"
	"path/filepath"

	"rejoin/ckpt/hf"
)

// division decides how an update's rows are divided over the ranks: as in the
// checkpoint's run, or else keeping the rows of an update by changing the
// accumulation, or else by counting progress anew in samples.
func (r *resolver) division() error {
	if r.job.Checkpoint == "" { // a training script's dict does not say its division
		return nil
	}
	offset, err := r.savedOffset()
	if err != nil {
		return err
	}
	args, was := &r.job.Arguments, r.job.Previous
	now := divisionOf(args, r.job.WorldSize)
	if was.WorldSize == 0 {
		r.warn("%s does not tell how many ranks it was trained with; %d are assumed", r.job.Checkpoint, now.WorldSize)
		was.WorldSize = now.WorldSize
		r.job.Previous = was
	}
	if was == now {
		r.job.Offset = offset
		return nil
	}
	if r.request.OnWorldChange == "refuse" {
		return requestError("--on-world-change refuse: the checkpoint was trained with %v, this run has %v", was, now)
	}
	if now.Rows() != was.Rows() && r.before.GradientAccumulationSteps == args.GradientAccumulationSteps &&
		r.before.PerDeviceTrainBatchSize == args.PerDeviceTrainBatchSize {
		if kept, ok := was.Rescale(now.WorldSize); ok {
			now, args.GradientAccumulationSteps = kept, kept.Accumulation
		}
	}
	return r.divideAnew(was, now, offset)
}

// savedOffset is the offset that the checkpoint's epoch was gone on with.
func (r *resolver) savedOffset() (Offset, error) {
	if r.manifest == nil {
		return Offset{}, nil
	}
	offset, err := decodeOffset(r.manifest)
	if err != nil {
		return Offset{}, fmt.Errorf("%s: %w", filepath.Join(r.job.Checkpoint, hf.ManifestFile), err)
	}
	return offset, nil
}
