package trainer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"rejoin/ckpt"
	"rejoin/ckpt/dictfile"
	"rejoin/ckpt/hf"
	"rejoin/optim"
	"rejoin/pyobj"
	"rejoin/rng"
)

// LacksError lists what a training script's dict does not hold, and the flags
// that say it.
type LacksError struct {
	Path, Holds string
	Lacks       []Lack
}

// Lack is one thing that a dict does not say, and a flag that does.
type Lack struct{ What, Flag string }

func (e *LacksError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is a training script's own dict. It holds %s. It does not say, and a resume needs, what the script was run with:", e.Path, e.Holds)
	for _, l := range e.Lacks {
		fmt.Fprintf(&b, "\n  %-38s %s", l.Flag, l.What)
	}
	return b.String()
}

// dictCheckpoint takes a training script's dict as what to resume from.
func (r *resolver) dictCheckpoint(path string) error {
	opened, contents, err := openDict(path, r.job)
	if err != nil {
		return err
	}
	defer opened.Close()
	r.job.Dict = path
	if err := r.dictArguments(path, contents); err != nil {
		return err
	}
	r.say("%s: a training script's own dict, with %s", path, contents.Holds())
	if r.saved == nil {
		r.say("%s says nothing of a schedule: unless a flag says otherwise, the learning rate stays", path)
	}
	r.say("%s says nothing of clipping or random states: unless a flag says otherwise, gradients are not clipped, and random states begin from the seed", path)
	return nil
}

// openDict opens and recognises a training script's dict.
func openDict(path string, job *Job) (*ckpt.Checkpoint, *dictfile.Contents, error) {
	location, err := job.mapLocation()
	if err != nil {
		return nil, nil, err
	}
	opened, err := ckpt.Open(path, ckpt.Options{MapLocation: location, CheckCRC: true})
	if err != nil {
		return nil, nil, err
	}
	var contents *dictfile.Contents
	if opened.Safetensors() != nil {
		err = &dictfile.NotRecognisedError{Reason: "a safetensors file holds weights only; `launch train --init FILE` begins a new run with them"}
	} else {
		contents, err = dictfile.Recognise(opened.Object())
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), opened.Close())
	}
	return opened, contents, nil
}

// dictArguments takes from the dict what it says of the run, refuses what it
// lacks beyond choice, and sets what scripts do unless they say otherwise.
func (r *resolver) dictArguments(path string, c *dictfile.Contents) error {
	r.job.FreshOptimizer, r.job.FreshScheduler = r.request.FreshOptimizer, r.request.FreshScheduler || c.Scheduler == nil
	if !c.HasEpoch {
		return &LacksError{Path: path, Holds: c.Holds(), Lacks: []Lack{{"the epoch it was saved after; `launch train --init FILE` begins a new run with its weights", `key "epoch"`}}}
	}
	args := &r.job.Arguments
	args.LRSchedulerType, args.MaxGradNorm, args.Seed = "constant", 0, 0
	if c.Optimizer == nil && !r.job.FreshOptimizer {
		return &MissingStateError{path + ": an optimizer's state", "--fresh-optimizer", freshOptimizerMeans}
	}
	var g dictfile.Group
	if c.Optimizer != nil {
		var err error
		if g, err = c.FirstGroup(); err != nil && !r.job.FreshOptimizer {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if !r.job.FreshScheduler {
		if err := r.dictSchedule(path, c, g.Steps); err != nil {
			return err
		}
	}
	if r.job.FreshOptimizer {
		r.warn("--fresh-optimizer: %s", freshOptimizerMeans)
		return nil
	}
	if c.Scheduler == nil && g.LR != g.InitialLR && !r.request.FreshScheduler {
		r.hiddenSchedule = fmt.Sprintf("which schedule it was: its learning rate was %v and is %v, and it did not save its scheduler", g.InitialLR, g.LR)
	}
	return r.dictOptimizer(path, g)
}

// dictOptimizer sets the arguments to what the optimizer's state says.
func (r *resolver) dictOptimizer(path string, g dictfile.Group) error {
	args := &r.job.Arguments
	args.LearningRate, args.WeightDecay = g.InitialLR, g.WeightDecay
	if g.Groups == 1 {
		r.job.ParamGroups = flatGroups
	}
	switch g.Kind {
	case dictfile.SGD:
		args.Optim = "sgd"
		return nil
	case dictfile.Adam:
		args.Optim = "adam"
	case dictfile.AdamW:
		args.Optim = "adamw_torch"
		if g.Fused {
			args.Optim = "adamw_torch_fused"
		}
	case dictfile.AdamOrAdamW:
		r.eitherAdam = true
	default:
		return fmt.Errorf("%s: its optimizer is none of Adam, AdamW and SGD, which are those that Rejoin has; --fresh-optimizer goes on without its state", path)
	}
	args.AdamBeta1, args.AdamBeta2, args.AdamEpsilon = g.Beta1, g.Beta2, g.Eps
	return nil
}

// dictLacks refuses a resume from a dict unless flags say what the dict does not;
// its error is a [*RequestError] of a [*LacksError].
func (r *resolver) dictLacks() error {
	if r.job.Dict == "" {
		return nil
	}
	var lacks []Lack
	lack := func(said bool, what, flag string) {
		if !said {
			lacks = append(lacks, Lack{what, flag})
		}
	}
	sets := func(name string) bool { return r.given[name] }
	lack(!r.eitherAdam || sets("optim"), "which optimizer it was: Adam and AdamW wrote the same keys then, and differ in weight decay", "--set optim=adam, or optim=adamw_torch")
	lack(!r.job.FreshOptimizer || sets("optim"), "the optimizer", "--set optim=adam")
	lack(!r.job.FreshOptimizer || sets("learning_rate"), "the learning rate", "--set learning_rate=1e-3")
	lack(sets("per_device_train_batch_size"), "rows of a batch on each worker", "--set per_device_train_batch_size=16")
	lack(sets("num_train_epochs") || sets("max_steps"), "epochs of the whole run", "--set num_train_epochs=4")
	lack(r.request.Sampler != "", "which order the rows were drawn in: DistributedSampler's is distributed, accelerate's seedable_random", "--sampler distributed")
	lack(sets("data_seed"), "the sampler's seed: DistributedSampler's is 0 unless the script gave another", "--set data_seed=0")
	lack(r.request.Model != "", "the model, with its loss", "--model FILE.yaml")
	lack(r.request.Data != "", "the data", "--data FILE")
	lacks = append(lacks, r.scheduleLacks()...)
	if lacks == nil {
		return nil
	}
	opened, contents, err := openDict(r.job.Dict, r.job)
	if err != nil {
		return err
	}
	defer opened.Close()
	return &RequestError{&LacksError{Path: r.job.Dict, Holds: contents.Holds(), Lacks: lacks}}
}

// digestDict is the SHA-256 of the dict's file, for the ranks to compare.
func digestDict(ctx context.Context, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), ctx.Err()
}

// restoreDict rebuilds what a training script's dict holds, and stands at the
// start of the epoch after the one it was saved in.
func (r *run) restoreDict() error {
	path := r.job.Dict
	opened, c, err := openDict(path, r.job)
	if err != nil {
		return err
	}
	defer opened.Close()
	if err := r.loadWeights(path, c.Weights, nil); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := r.restoreOptimizer(path, func() (*pyobj.Dict, error) { return c.Optimizer, nil }); err != nil {
		return err
	}
	epochs := r.epochsDone(c)
	step := epochs * r.plan.UpdatesPerEpoch
	if err := r.restoreRates(path, step, func() (*pyobj.Dict, error) { return c.Scheduler, nil }); err != nil {
		return err
	}
	r.sayTags(path, opened.Tags())
	for _, w := range opened.Warnings {
		r.warnf("%s: %s", path, w)
	}
	r.layout, r.epochOffset = c.Layout(), c.Epoch-epochs
	seed := uint64(r.args.Seed)
	r.generator = rng.New(seed)
	r.random = hf.NewRandomState(r.generator.State(), uint32(seed), uint32(seed))
	r.state = hf.NewTrainerState()
	r.state.Set("global_step", step)
	r.state.Set("epoch", float64(epochs))
	r.pos = r.plan.PositionAt(step)
	r.loss.lastLogged = step
	if r.trace != nil {
		r.trace.FirstStep = step
	}
	if !r.job.FreshScheduler {
		r.settleSchedule()
	}
	r.setReferences()
	return r.encodeTrainingArgs()
}

// settleSchedule holds what the dict's scheduler has counted against the place
// where the run goes on. A script that saved before it stepped the scheduler is
// one behind: that step is made, so that the next rates are not late.
func (r *run) settleSchedule() {
	at := r.pos
	if n := r.largestStep(); n > 0 {
		at.Step = n
	}
	want, _ := r.rates.expected(at)
	switch has := r.rates.LastEpoch(); has {
	case want:
	case want - 1:
		r.owesEpoch = r.rates.catchUp()
		how := "it is stepped now"
		if r.owesEpoch {
			how = "an evaluation steps it now"
		}
		r.warnf("%s: it was saved before its %s was stepped for the last time, at %d of %d; %s, so that the learning rate does not come late", r.job.Dict, r.rates.Class(), has, want, how)
	default:
		r.warnf("%s: its %s has counted %d, but %d would be expected here; it goes on from its own count (--fresh-scheduler counts anew)", r.job.Dict, r.rates.Class(), has, want)
	}
}

// epochsDone reads the dict's "epoch". Scripts write the epoch just done,
// counted from 0, or the number of epochs done; the optimizer's step count tells
// which, or, if it counts none, the scheduler's.
func (r *run) epochsDone(c *dictfile.Contents) int {
	perEpoch := r.plan.UpdatesPerEpoch
	steps, counter := r.largestStep(), "optimizer"
	if steps == 0 {
		steps, counter = r.scheduledUpdates(c), "scheduler"
	}
	done := c.Epoch + 1
	switch steps {
	case 0:
		r.sayf("%s: epoch %d is taken for the one just done, counted from 0: training goes on with epoch %d", r.job.Dict, c.Epoch, done)
	case done * perEpoch:
		r.sayf("%s: saved after epoch %d, update %d, as its %s counts: training goes on at the start of epoch %d", r.job.Dict, c.Epoch, steps, counter, done)
	case c.Epoch * perEpoch:
		done = c.Epoch
		r.sayf("%s: saved after %d epochs, update %d, as its %s counts: training goes on at the start of epoch %d, counted from 0", r.job.Dict, c.Epoch, steps, counter, done)
	default:
		r.warnf("%s: its %s made %d updates, but with these arguments (%d ranks × %d rows × %d accumulated) an epoch has %d, so that epoch %d would end at %d. "+
			"If the batch size, the data, the sampler or the number of workers is not the run's, the resume is not exact; training goes on at the start of epoch %d",
			r.job.Dict, counter, steps, r.group.Size(), r.args.PerDeviceTrainBatchSize, r.args.GradientAccumulationSteps, perEpoch, c.Epoch, done*perEpoch, done)
	}
	return done
}

// scheduledUpdates is how many updates the dict's scheduler has seen, for an
// optimizer that does not count them; 0 if it does not tell.
func (r *run) scheduledUpdates(c *dictfile.Contents) int {
	if c.Scheduler == nil || r.job.FreshScheduler {
		return 0
	}
	state, err := optim.DescribeScheduler(c.Scheduler)
	switch {
	case err != nil:
		return 0
	case r.args.LRSchedulerInterval == everyEpoch, state.Class == optim.ReduceLROnPlateau && r.args.EvalStrategy == "epoch":
		return state.LastEpoch * r.plan.UpdatesPerEpoch
	case state.Class == optim.ReduceLROnPlateau:
		return 0
	}
	return state.LastEpoch
}

// largestStep is the largest step count of a parameter; 0 if the optimizer does
// not count.
func (r *run) largestStep() (steps int) {
	for _, p := range r.params {
		n, _ := r.optimizer.State(p.Name)
		steps = max(steps, n)
	}
	return steps
}

// dictName is the name of the dict beside checkpoint-N.
func dictName(step int) string { return hf.DirName(step) + ".pth" }

// scriptDict is a training script's dict that is to be written.
type scriptDict struct {
	path  string
	value *pyobj.Dict
}

func (d *scriptDict) write() error { return dictfile.Write(d.path, d.value) }

// scriptDict is the run's state as a training script's dict, to stand beside the
// checkpoint directory. Such a dict can only say which epoch it was saved after,
// so that there is none in the middle of an epoch; nil where none is written. It shares the snapshot c.
func (r *run) scriptDict(c *hf.Contents, loss float32) *scriptDict {
	if !r.job.AlsoDict || r.pos.Batch != 0 {
		return nil
	}
	layout, epoch := r.layout, r.pos.Epoch+r.epochOffset
	if layout == nil {
		layout, epoch = dictfile.DefaultLayout(), r.pos.Epoch-1
	}
	return &scriptDict{filepath.Join(r.job.OutputDir, dictName(r.pos.Step)), layout.Dict(dictfile.State{
		Epoch: epoch, Weights: c.Weights, Optimizer: c.Optimizer, Scheduler: c.Scheduler, Loss: float64(loss),
	})}
}
