package trainer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"rejoin/ckpt/hf"
	"rejoin/kernel"
)

// Version is the program's, as manifest.json records it.
const Version = "0.1.0"

// save writes checkpoint-N. Rank 0 is the only writer: it gathers what the
// others hold, and every rank learns the outcome.
func (r *run) save(ctx context.Context, last bool) error {
	r.noteBestCheckpoint()
	randomStates, err := r.gatherRandomStates(ctx)
	if err != nil {
		return err
	}
	sums, err := gatherFloat32(ctx, r.group, r.loss.sum)
	if err != nil {
		return err
	}
	var outcome hf.Outcome
	var dict string
	if r.group.Rank() == 0 {
		outcome, err = r.write(ctx, r.contents(randomStates, pendingLoss{sums, r.loss.lastLogged}, last))
		if err == nil {
			dict, err = r.saveDict(r.lastLoss)
		}
	}
	if err := agree(ctx, r.group, err); err != nil {
		return err
	}
	path := filepath.Join(r.job.OutputDir, hf.DirName(r.pos.Step))
	r.savedSteps[r.pos.Step], r.lastSaved = true, path
	switch outcome {
	case hf.Kept:
		r.sayf("%s: identical to the one already there, which is kept", path)
	case hf.Replaced:
		r.sayf("%s: saved, in place of a different one", path)
	default:
		r.sayf("%s: saved", path)
	}
	if dict != "" {
		r.sayf("%s: saved, as a training script's dict", dict)
	}
	return nil
}

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

// contents is everything that a checkpoint holds.
func (r *run) contents(randomStates []*hf.RandomState, pending pendingLoss, last bool) hf.Contents {
	state := r.state.Clone()
	state.Set("stateful_callbacks", r.callbackStates(last))
	return hf.Contents{
		Step:         r.pos.Step,
		Weights:      r.model.StateDict(),
		Optimizer:    r.optimizer.StateDict(),
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

// manifestExtra are manifest.json's keys beyond the known ones.
func (r *run) manifestExtra(pending pendingLoss) map[string]any {
	extra := map[string]any{pendingKey: pending.encode(), runKey: r.job.Run}
	if r.job.ParamGroups != decayGroups {
		extra[paramGroupsKey] = r.job.ParamGroups
	}
	if r.plan.Offset.in(r.plan, r.pos.Step) {
		extra[offsetKey] = r.plan.Offset.encode()
	}
	r.addEvaluation(extra)
	return extra
}

// write publishes the checkpoint, or leaves things as they were.
func (r *run) write(ctx context.Context, contents hf.Contents) (outcome hf.Outcome, err error) {
	w, err := hf.Begin(r.job.OutputDir, r.pos.Step)
	if err != nil {
		return hf.Unpublished, err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	if err := w.Write(ctx, contents); err != nil {
		return hf.Unpublished, err
	}
	return w.Commit(ctx, r.job.Overwrite)
}
