package trainer

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"path/filepath"

	"rejoin/ckpt"
	"rejoin/ckpt/hf"
	"rejoin/ckpt/names"
	"rejoin/data"
	"rejoin/kernel"
	"rejoin/model"
	"rejoin/optim"
	"rejoin/rng"
	"rejoin/tensor"
)

// begin rebuilds the run's state on this rank, and lets the ranks compare: they
// agree on one checkpoint before they load it, on the outcome of loading before
// anyone goes on or leaves, and on the rebuilt state.
func (r *run) begin(ctx context.Context) error {
	opened, digest, err := r.open(ctx)
	if opened != nil {
		defer opened.Close()
	}
	if err := agree(ctx, r.group, err); err != nil {
		return err
	}
	if err := agreeOn(ctx, r.group, "checkpoint", digest); err != nil {
		return err
	}
	err = r.build()
	switch {
	case err != nil:
	case opened != nil:
		err = r.restore(opened)
	case r.job.Dict != "":
		err = r.restoreDict()
	default:
		err = r.initialise()
	}
	if err := agree(ctx, r.group, err); err != nil {
		return err
	}
	if err := r.settleWarnings(ctx); err != nil {
		return err
	}
	r.started = true
	r.early = newEarlyStopping(r.args, r.state)
	return agreeOn(ctx, r.group, "rebuilt state (weights, moments, learning rate, position, data)", r.fingerprint())
}

// open opens the checkpoint, if there is one, and digests it.
func (r *run) open(ctx context.Context) (*hf.Checkpoint, []byte, error) {
	switch {
	case r.job.Dict != "":
		digest, err := digestDict(ctx, r.job.Dict)
		return nil, digest, err
	case !r.job.Resuming():
		return nil, nil, nil
	}
	mapLocation, err := r.job.mapLocation()
	if err != nil {
		return nil, nil, err
	}
	opened, err := hf.Open(r.job.Checkpoint, hf.Options{MapLocation: mapLocation, Without: r.job.without()})
	if err != nil {
		return nil, nil, err
	}
	digest, err := opened.Digest(ctx)
	return opened, []byte(digest), err
}

// build makes everything that does not come from the checkpoint.
func (r *run) build() error {
	var err error
	if r.spec, err = model.ParseSpec([]byte(r.job.Model)); err != nil {
		return err
	}
	r.savedSteps = map[int]bool{}
	if err := r.openData(); err != nil {
		return err
	}
	if err := r.openEvaluation(); err != nil {
		return err
	}
	if r.plan, err = NewPlan(r.args, r.sampler.BatchesPerEpoch()); err != nil {
		return err
	}
	r.plan = r.plan.from(r.job.Offset, r.sampler)
	maxRows := r.args.PerDeviceTrainBatchSize
	if r.args.evaluates() {
		maxRows = max(maxRows, r.args.PerDeviceEvalBatchSize)
	}
	if r.model, err = model.New(r.spec, maxRows); err != nil {
		return err
	}
	offsets := r.borrowParams()
	r.reducer = newReducer(r.group, r.model.FlatGrads(), offsets)
	if r.optimizer, err = r.newOptimizer(); err != nil {
		return err
	}
	r.rates, err = r.args.newScheduler(r.optimizer, r.plan)
	if r.job.Trace {
		r.trace = &trace{dir: r.job.OutputDir, Rank: r.group.Rank(), WorldSize: r.group.Size(), MicroBatches: [][]int{}}
	}
	return err
}

// openData opens the data and lays out this rank's part of it.
func (r *run) openData() error {
	var err error
	if r.table, err = data.Open(r.job.Data); err != nil {
		return err
	}
	if want := r.job.DataDigest; want != "" && r.table.Digest() != want {
		return &DataChangedError{What: "training data", Flag: "--data", Path: r.job.Data, Expected: want, Found: r.table.Digest()}
	}
	r.sampler, err = newSampler(r.job.Sampler, r.args, r.table.Len(), r.group.Size(), r.group.Rank())
	if err != nil {
		return err
	}
	r.batches, err = newBatches(r.table, r.spec, r.args.PerDeviceTrainBatchSize)
	return err
}

// closeData closes what openData opened. It was only read from.
func (r *run) closeData() {
	for _, table := range []*data.Table{r.table, r.eval.table} {
		if table != nil {
			_ = table.Close()
		}
	}
}

// DataChangedError reports data that is not what the checkpoint was trained on.
type DataChangedError struct {
	What, Flag            string // such as "training data", "--data"
	Path, Expected, Found string
}

func (e *DataChangedError) Error() string {
	return fmt.Sprintf("%s %s is not what the checkpoint was trained on: expected SHA-256 %.16s…, found %.16s…; "+
		"name the right file with %s", e.What, e.Path, e.Expected, e.Found, e.Flag)
}

// borrowParams lets the optimizer work on the model's own buffers, and returns
// where each parameter's gradient begins in the flat one.
func (r *run) borrowParams() (offsets []int) {
	for _, p := range r.model.Params() {
		r.params = append(r.params, &optim.Param{Name: p.Name, Shape: p.Shape, Values: p.Values, Grad: p.Grad})
		offsets = append(offsets, p.Offset)
	}
	return offsets
}

// initialise begins from scratch: weights as torch would draw them from the
// seed, or from a file; random states as set_seed leaves them.
func (r *run) initialise() error {
	seed := uint64(r.args.Seed)
	if r.job.Init != "" {
		if err := r.loadInit(); err != nil {
			return err
		}
	} else {
		r.model.Init(rng.New(seed))
	}
	r.generator = rng.New(seed)
	r.random = hf.NewRandomState(r.generator.State(), uint32(seed), uint32(seed))
	r.state = hf.NewTrainerState()
	r.setReferences()
	return r.encodeTrainingArgs()
}

// encodeTrainingArgs makes training_args.bin, unless the optimizer or the schedule
// is one that the Trainer does not have: it would resume with another.
func (r *run) encodeTrainingArgs() error {
	if !r.args.trainerHas() {
		return nil
	}
	var err error
	r.trainingArgs, err = hf.EncodeTrainingArgs(r.args.trainingArgs(r.group.Size()))
	return err
}

func (r *run) loadInit() error {
	opened, err := ckpt.Open(r.job.Init, ckpt.Options{CheckCRC: true})
	if err != nil {
		return err
	}
	defer opened.Close()
	weights, wrapper, err := opened.StateDict()
	if err != nil {
		return err
	}
	if wrapper != "" {
		r.sayf("%s: the weights are under %q", r.job.Init, wrapper)
	}
	r.sayTags(r.job.Init, opened.Tags())
	for _, w := range opened.Warnings {
		r.warnf("%s: %s", r.job.Init, w)
	}
	if err := r.loadWeights(r.job.Init, weights, names.RecordedTies(opened.Metadata(), weights)); err != nil {
		return fmt.Errorf("%s: %w", r.job.Init, err)
	}
	return nil
}

// restore rebuilds everything that the checkpoint holds, in the Trainer's order.
func (r *run) restore(c *hf.Checkpoint) error {
	state, err := c.State()
	if err != nil {
		return err
	}
	weights, err := c.Weights()
	if err != nil {
		return err
	}
	if err := r.loadWeights(c.Dir(), weights, c.Ties()); err != nil {
		return fmt.Errorf("%s: %w", c.Dir(), err)
	}
	if err := r.restoreOptimizer(filepath.Join(c.Dir(), hf.OptimizerFile), c.Optimizer); err != nil {
		return err
	}
	if err := r.restoreRates(filepath.Join(c.Dir(), hf.SchedulerFile), state.GlobalStep(), c.Scheduler); err != nil {
		return err
	}
	if err := r.samePlace(c, state.GlobalStep()); err != nil {
		return err
	}
	r.sayTags(c.Dir(), c.Tags())
	for _, w := range c.Changed() {
		r.warnf("%s", w)
	}
	if n := r.job.ExpectedSteps; n > 0 && n != r.plan.MaxSteps && r.group.Rank() == 0 {
		r.warnf("%s says the run has %d updates, but this data and these arguments make %d: is it the data that the run was trained on?",
			filepath.Join(c.Dir(), hf.StateFile), n, r.plan.MaxSteps)
	}
	r.state = state
	r.restoreBest()
	if err := r.restorePosition(c); err != nil {
		return err
	}
	r.setReferences()
	r.savedSteps[r.pos.Step], r.lastSaved = true, c.Dir()
	if err := r.restoreRandomState(c); err != nil {
		return err
	}
	return r.carryAlong(c)
}

// samePlace compares the counters of a checkpoint that no manifest vouches for:
// files of two checkpoints must not be mixed.
func (r *run) samePlace(c *hf.Checkpoint, step int) error {
	manifest, err := c.Manifest()
	if err != nil || manifest != nil || r.job.FreshScheduler {
		return err
	}
	want, exact := r.rates.expected(r.plan.PositionAt(step))
	if at := r.rates.LastEpoch(); exact && at != want {
		return &MixedError{Dir: c.Dir(), File: hf.SchedulerFile, Found: at, Expected: want}
	}
	if most := r.largestStep(); !r.job.FreshOptimizer && most > step {
		return &MixedError{Dir: c.Dir(), File: hf.OptimizerFile, Found: most, Expected: step}
	}
	return nil
}

// MixedError says that a checkpoint's files are of different steps.
type MixedError struct {
	Dir, File       string
	Found, Expected int
}

func (e *MixedError) Error() string {
	return fmt.Sprintf("%s is of step %d, but %s beside it says global_step %d: the files are of two checkpoints; copy the checkpoint anew, or resume from another",
		filepath.Join(e.Dir, e.File), e.Found, hf.StateFile, e.Expected)
}

// restorePosition finds the next micro-batch: from the updates done, or, where an
// update's rows have changed, from the job's recount of them in samples.
func (r *run) restorePosition(c *hf.Checkpoint) error {
	step := r.state.GlobalStep()
	recounted := r.job.Recount
	if recounted != nil {
		step = recounted.Step
		r.state.Set("global_step", step)
	}
	r.pos = r.plan.PositionAt(step)
	r.loss.lastLogged = step
	if r.trace != nil {
		r.trace.FirstStep = step
	}
	manifest, err := c.Manifest()
	if err != nil || manifest == nil || recounted != nil { // losses of other steps cannot be averaged with new ones
		return err
	}
	if r.group.Rank() == 0 && (manifest.BLAS != kernel.BLAS() || manifest.Kernel != kernel.Level()) {
		r.sayf("the checkpoint was computed with %s and %s kernels, this run with %s and %s: results may differ in the last bits", manifest.BLAS, manifest.Kernel, kernel.BLAS(), kernel.Level())
	}
	pending, err := decodePending(manifest)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(c.Dir(), hf.ManifestFile), err)
	}
	r.loss = pending.of(r.group.Rank(), r.group.Size(), step)
	r.restoreEpochEnd(manifest)
	return nil
}

// fingerprint is a hash of what must be equal on all ranks before the first step.
func (r *run) fingerprint() []byte {
	h := sha256.New()
	floats := func(values []float32) { _ = tensor.WriteFloat32(h, values) } // a hash never fails
	for _, p := range r.params {
		fmt.Fprintf(h, "%q %v\n", p.Name, p.Shape)
		floats(p.Values)
		steps, tensors := r.optimizer.State(p.Name)
		for _, t := range tensors {
			floats(t)
		}
		fmt.Fprintln(h, steps)
	}
	for i := range r.optimizer.NumGroups() {
		fmt.Fprintln(h, math.Float64bits(r.optimizer.LearningRate(i)))
	}
	fmt.Fprintln(h, r.pos, r.plan, r.table.Digest(), r.state.Get("best_model_checkpoint"))
	if r.eval.table != nil {
		fmt.Fprintln(h, r.eval.table.Digest())
	}
	return h.Sum(nil)
}
