package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"rejoin/ckpt/dictfile"
	"rejoin/ckpt/hf"
	"rejoin/data"
	"rejoin/kernel"
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

	table     *data.Table
	batches   batches
	sampler   sampler
	spec      *model.Spec
	model     *model.Model
	params    []*optim.Param
	optimizer optimizer
	rates     scheduler
	reducer   *reducer

	generator *rng.Generator
	random    *hf.RandomState // Python's and numpy's generators, carried along
	plan      Plan
	pos       Position
	state     *hf.TrainerState
	loss      lossMeter
	// batchCounts are the micro-batches with rows of each rank in this epoch.
	batchCounts []int
	eval        evaluation
	early       *earlyStopping // nil for none
	control     control
	measured    measured

	epochEnding bool // what is due at the end of the epoch is being done
	owesEpoch   bool // the checkpoint was saved before that was done
	savedSteps  map[int]bool
	lastSaved   string // the last checkpoint, or the one resumed; "" for none
	warnings    []string
	started     bool // warnings are printed as they come, not gathered
	wentOn      bool // a warning about numbers that are not finite was given

	// layout is the training script's dict that the run was resumed from, whose
	// count of epochs is epochOffset off from the number of epochs done; nil if none.
	layout      *dictfile.Layout
	epochOffset int
	lastLoss    float32 // this rank's, of the last micro-batch

	saver     saver
	unsettled bool // a save was begun whose outcome not every rank knows yet
	saidLeft  map[string]bool
	requests  *Requests
	stopped   *StoppedError // the run was asked to stop, and has

	trainingArgs []byte            // training_args.bin
	companions   map[string][]byte // config.json and its like, carried along
	trace        *trace
}

// Run trains as the job says, from scratch or from its checkpoint, and returns
// when the last checkpoint is saved. Every rank of the group must call it with
// the same job; on failure every rank returns an error, a *[RankError] where the
// ranks agreed on it before the first step.
func Run(ctx context.Context, g Group, job *Job, out Output) error {
	return RunWithRequests(ctx, g, job, out, &Requests{})
}

// RunWithRequests is [Run] under a person's requests. It returns a
// *[StoppedError] on every rank when one of them asked it to stop.
//
// When ctx ends, so does a save under way, which leaves nothing behind.
func RunWithRequests(ctx context.Context, g Group, job *Job, out Output, requests *Requests) error {
	if g.Size() != job.WorldSize {
		return fmt.Errorf("the job is for %d ranks, the group has %d", job.WorldSize, g.Size())
	}
	r := newRun(g, job, out, requests)
	defer r.closeData()
	defer r.finishSave()
	if err := r.begin(ctx); err != nil {
		return err
	}
	r.sayf("%v; %d rows, %d parameters; %s, %s kernels; at step %d of %d", divisionOf(r.args, r.group.Size()), r.table.Len(), r.parameters(), kernel.BLAS(), kernel.Level(), r.pos.Step, r.plan.MaxSteps)
	begun, first := time.Now(), r.pos.Step
	switch {
	case r.pos.Step >= r.plan.MaxSteps:
		r.sayf("nothing left to do: a higher --max-steps, or num_train_epochs, trains on")
	case r.early.done():
		r.sayf("nothing left to do: early stopping ended the run at step %d (a larger early_stopping_patience trains on)", r.pos.Step)
	default:
		if err := r.train(ctx); err != nil {
			return err
		}
	}
	if err := agree(ctx, g, r.trace.write()); err != nil {
		return err
	}
	if r.stopped != nil {
		return r.stopped
	}
	if err := r.loadBest(ctx); err != nil {
		return err
	}
	if n := r.pos.Step - first; n > 0 {
		r.sayf("%d steps in %.1f s", n, time.Since(begun).Seconds())
	}
	if job.Resuming() {
		r.sayf("resume: OK")
	} else {
		r.sayf("training from scratch: OK")
	}
	return nil
}

func newRun(g Group, job *Job, out Output, requests *Requests) *run {
	return &run{
		job: job, args: &job.Arguments, group: g, out: out, requests: requests, saidLeft: map[string]bool{},
		saver: saver{dir: job.OutputDir, overwrite: job.Overwrite, limit: job.Arguments.saveTotalLimit()},
	}
}

// StepError says in which update a run failed.
type StepError struct {
	Step int // from 1
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("step %d: %v", e.Step, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// parameters is the number of trained elements.
func (r *run) parameters() (n int) {
	for _, p := range r.params {
		n += len(p.Values)
	}
	return n
}

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

// going reports that there is another update to run.
func (r *run) going() bool { return !r.control.stop && r.stopped == nil }

// train runs updates until the plan, early stopping or a person says stop, and
// the last save has ended.
func (r *run) train(ctx context.Context) error {
	if err := r.evaluateOnStart(ctx); err != nil {
		return err
	}
	if r.owesEpoch {
		if err := r.endEpoch(ctx); err != nil {
			return err
		}
	}
	for r.going() {
		epoch := r.pos.Epoch
		begun := r.plan.rowsBefore(epoch)
		batches := r.sampler.EpochFrom(epoch, begun)
		r.batchCounts = r.sampler.BatchCountsFrom(begun)
		if r.pos.Batch == 0 && !r.plan.Offset.in(r.plan, r.pos.Step) {
			r.generator.Uint64() // torch's DataLoader draws a base seed for each epoch it begins
		}
		for r.pos.Epoch == epoch && r.going() {
			group := batches[r.pos.Batch:][:r.plan.GroupSize(r.pos)]
			if err := r.update(ctx, group); err != nil {
				return &StepError{Step: r.pos.Step + 1, Err: err}
			}
		}
	}
	return r.settleSave(ctx)
}

// lossShare scales a micro-batch's loss so that the log's mean over all ranks is
// that over the ranks which had rows.
func (r *run) lossShare(batch int) float32 {
	with := 0
	for _, n := range r.batchCounts {
		if batch < n {
			with++
		}
	}
	return float32(r.group.Size()) / float32(with)
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
		r.optimizer.Step()
	}
	r.measured = measured{gradNorm: float64(norm), learningRate: r.optimizer.LearningRate(0)}
	next, epoch := r.plan.Advance(r.pos)
	r.pos = next
	r.rates.updated(apply, r.pos)
	r.state.Set("global_step", next.Step)
	r.state.Set("epoch", epoch)
	return r.afterUpdate(ctx, r.reducer.agreed())
}

// gradients leaves in the model the mean over ranks of the group's gradient.
func (r *run) gradients(ctx context.Context, group [][]int) error {
	r.model.ZeroGrad()
	last := len(group) - 1
	for i := range last {
		if err := r.microBatch(group, i); err != nil {
			return err
		}
	}
	r.reducer.begin(ctx, r.wishes())
	r.model.OnGradientReady(r.reducer.gradientReady)
	err := r.microBatch(group, last)
	r.model.OnGradientReady(nil)
	if err != nil {
		return errors.Join(err, r.reducer.cancel())
	}
	return r.reducer.wait(ctx)
}

// microBatch adds the gradient of the i-th of an update's micro-batches. Without
// rows, which only the last can be, it adds zeros: the mean is still over all
// ranks, as torch's Join takes it by default.
func (r *run) microBatch(group [][]int, i int) error {
	rows := group[i]
	if len(rows) == 0 {
		r.reducer.allReady()
		r.trace.add(rows, float32(math.NaN()))
		return nil
	}
	batch, err := r.batch(rows)
	if err != nil {
		return err
	}
	loss, err := r.backward(batch, float32(len(group)))
	if err != nil {
		return nameRow(err, rows)
	}
	r.loss.add(loss * r.lossShare(r.pos.Batch+i))
	r.lastLoss = loss
	r.trace.add(rows, loss)
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
