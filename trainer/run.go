package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"rejoin/ckpt/hf"
	"rejoin/data"
	"rejoin/model"
	"rejoin/optim"
	"rejoin/rng"
)

// Output is where a run speaks. Only rank 0 speaks of what is the same everywhere.
type Output struct {
	Lines    io.Writer // progress and results, a line at a time
	Warnings io.Writer
}

// run is one rank's state while it trains. Everything in it that a checkpoint
// holds is written by save and rebuilt by restore.
type run struct {
	job   *Job
	args  *Arguments
	group Group
	out   Output

	table   *data.Table
	batches batches
	sampler data.Sampler
	spec    *model.Spec
	model   *model.Model
	params  []*optim.Param
	adam    *optim.Adam
	rates   *optim.Scheduler
	reducer *reducer

	generator *rng.Generator
	random    *hf.RandomState // Python's and numpy's generators, carried along
	plan      Plan
	pos       Position
	state     *hf.TrainerState
	loss      lossMeter
	eval      evaluation
	early     *earlyStopping // nil for none
	control   control
	measured  measured

	epochEnding bool // what is due at the end of the epoch is being done
	owesEpoch   bool // the checkpoint was saved before that was done
	savedSteps  map[int]bool
	lastSaved   string // the last checkpoint, or the one resumed; "" for none
	warnings    []string
	started     bool // warnings are printed as they come, not gathered
	wentOn      bool // a warning about numbers that are not finite was given

	trainingArgs []byte            // training_args.bin
	companions   map[string][]byte // config.json and its like, carried along
	trace        *trace
}

// Run trains as the job says, from scratch or from its checkpoint, and returns
// when the last checkpoint is saved. Every rank of the group must call it with
// the same job; on failure every rank returns an error, a *[RankError] where the
// ranks agreed on it before the first step.
func Run(ctx context.Context, g Group, job *Job, out Output) error {
	if g.Size() != job.WorldSize {
		return fmt.Errorf("the job is for %d ranks, the group has %d", job.WorldSize, g.Size())
	}
	r := &run{job: job, args: &job.Arguments, group: g, out: out}
	if err := r.begin(ctx); err != nil {
		return err
	}
	switch {
	case r.pos.Step >= r.plan.MaxSteps:
		r.sayf("nothing left to do: the checkpoint is at step %d of %d (--max-steps trains on)", r.pos.Step, r.plan.MaxSteps)
	case r.early.done():
		r.sayf("nothing left to do: early stopping ended the run at step %d (a larger early_stopping_patience trains on)", r.pos.Step)
	default:
		if err := r.train(ctx); err != nil {
			return err
		}
	}
	if err := r.loadBest(ctx); err != nil {
		return err
	}
	if err := agree(ctx, g, r.trace.write()); err != nil {
		return err
	}
	if job.Resuming() {
		r.sayf("resume: OK")
	} else {
		r.sayf("training from scratch: OK")
	}
	return nil
}

// StepError says in which update a run failed.
type StepError struct {
	Step int // from 1
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("step %d: %v", e.Step, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// sayf prints a line on rank 0.
func (r *run) sayf(format string, args ...any) {
	if r.group.Rank() == 0 {
		fmt.Fprintf(r.out.Lines, format+"\n", args...)
	}
}

// warnf prints a warning on the rank it concerns; before the first step it is
// kept for settleWarnings.
func (r *run) warnf(format string, args ...any) {
	if !r.started {
		r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
		return
	}
	fmt.Fprintf(r.out.Warnings, "warning: "+format+"\n", args...)
}

// train runs updates until the plan or early stopping says stop.
func (r *run) train(ctx context.Context) error {
	if err := r.evaluateOnStart(ctx); err != nil {
		return err
	}
	if r.owesEpoch {
		if err := r.endEpoch(ctx); err != nil {
			return err
		}
	}
	for !r.control.stop {
		epoch := r.pos.Epoch
		batches := r.sampler.Epoch(epoch)
		if r.pos.Batch == 0 {
			r.generator.Uint64() // torch's DataLoader draws a base seed for each epoch it begins
		}
		for r.pos.Epoch == epoch && !r.control.stop {
			group := batches[r.pos.Batch:][:r.plan.GroupSize(r.pos)]
			if err := r.update(ctx, group); err != nil {
				return &StepError{Step: r.pos.Step + 1, Err: err}
			}
		}
	}
	return nil
}

// update trains on one group of micro-batches, in the Trainer's order: average,
// clip, optimizer, learning rate for the log, schedule, step + 1, log, save.
func (r *run) update(ctx context.Context, group [][]int) error {
	if err := r.gradients(ctx, group); err != nil {
		return err
	}
	norm := optim.ClipGradNorm(r.params, r.args.MaxGradNorm)
	apply, err := r.settleNonFinite(ctx, group, norm)
	if err != nil {
		return err
	}
	if apply {
		r.adam.Step()
	}
	r.measured = measured{gradNorm: float64(norm), learningRate: r.adam.LearningRate(0)}
	if apply {
		r.rates.Step()
	}
	next, epoch := r.plan.Advance(r.pos)
	r.pos = next
	r.state.Set("global_step", next.Step)
	r.state.Set("epoch", epoch)
	return r.afterUpdate(ctx)
}

// gradients leaves in the model the mean over ranks of the group's gradient.
func (r *run) gradients(ctx context.Context, group [][]int) error {
	r.model.ZeroGrad()
	for i, rows := range group {
		batch, err := r.batch(rows)
		if err != nil {
			return err
		}
		last := i == len(group)-1
		if last {
			r.reducer.begin(ctx)
			r.model.OnGradientReady(r.reducer.gradientReady)
		}
		loss, err := r.backward(batch, float32(len(group)))
		if last {
			r.model.OnGradientReady(nil)
			if err != nil {
				err = errors.Join(err, r.reducer.cancel())
			} else {
				err = r.reducer.wait(ctx)
			}
		}
		if err != nil {
			return err
		}
		r.loss.add(loss)
		r.trace.add(rows)
	}
	return nil
}

// log appends an entry to the log history and prints it.
func (r *run) log(ctx context.Context) error {
	loss, err := r.loss.drain(ctx, r.group, r.pos.Step)
	if err != nil {
		return err
	}
	epoch, norm, rate := r.state.Epoch(), r.measured.gradNorm, r.measured.learningRate
	r.state.AppendLog(map[string]any{
		"epoch": epoch, "grad_norm": norm, "learning_rate": rate, "loss": loss, "step": int64(r.pos.Step),
	})
	r.sayf("step %*d/%d  epoch %.2f  loss %.6g  grad_norm %.6g  learning_rate %.6g",
		len(fmt.Sprint(r.plan.MaxSteps)), r.pos.Step, r.plan.MaxSteps, epoch, loss, norm, rate)
	return nil
}
