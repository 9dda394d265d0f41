package trainer

import (
	"context"
	"fmt"

	"rejoin/ckpt/hf"
	"rejoin/kernel"
)

// Version is the program's, as manifest.json records it.
const Version = "0.1.0"

// samplesSeen is the number of rows that all ranks together have trained on;
// rows that only fill up a last round are not counted.
func (r *run) samplesSeen() int64 {
	rows := r.table.Len()
	return int64(r.pos.Epoch)*int64(rows) + int64(r.plan.rowsDone(r.pos, rows, perRound(r.args, r.group.Size())))
}

// gatherRandomStates brings every rank's random state to every rank; each is
// about 14 KB.
func (r *run) gatherRandomStates(ctx context.Context) ([]*hf.RandomState, error) {
	mine, err := r.random.WithCPU(r.generator.State()).Marshal()
	if err != nil {
		return nil, err
	}
	all, err := r.group.AllGather(ctx, mine)
	if err != nil {
		return nil, err
	}
	states := make([]*hf.RandomState, len(all))
	for rank, raw := range all {
		if states[rank], err = hf.UnmarshalRandomState(raw); err != nil {
			return nil, fmt.Errorf("the random state that rank %d sent: %w", rank, err)
		}
	}
	return states, nil
}

// contents is everything that a checkpoint holds: a snapshot, but where training
// waits for the save the run's own buffers, which takes no memory.
func (r *run) contents(randomStates []*hf.RandomState, pending pendingLoss, last bool) hf.Contents {
	weights, optimizer := r.model.StateDict, r.optimizer.StateDict
	if r.job.SaveMode == SaveSync {
		weights, optimizer = r.model.StateDictView, r.optimizer.StateDictView
	}
	state := r.state.Clone()
	state.Set("stateful_callbacks", r.callbackStates(last))
	return hf.Contents{
		Step:         r.pos.Step,
		Weights:      weights(),
		Optimizer:    optimizer(),
		Scheduler:    r.rates.StateDict(),
		RandomStates: randomStates,
		State:        state,
		TrainingArgs: r.trainingArgs,
		Companions:   r.companions,
		Manifest: hf.Manifest{
			Rejoin:      Version,
			WorldSize:   r.group.Size(),
			SamplesSeen: r.samplesSeen(),
			Arguments:   r.args.Map(),
			DataPath:    r.job.Data,
			DataDigest:  r.table.Digest(),
			ModelYAML:   r.job.Model,
			Sampler:     r.job.Sampler,
			BLAS:        kernel.BLAS(),
			Kernel:      kernel.Level(),
			Extra:       r.manifestExtra(pending),
		},
	}
}
