package trainer

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"rejoin/ckpt/hf"
	"rejoin/optim"
	"rejoin/pyobj"
)

// optimizer is what the loop needs of *optim.Adam and *optim.SGD.
type optimizer interface {
	optim.Rates
	Step()
	StateDict() *pyobj.Dict
	StateDictView() *pyobj.Dict
	LoadStateDict(*pyobj.Dict) error
	Notices() []string
	State(name string) (steps int, tensors [][]float32)
}

// How parameters are put into groups, as the manifest keeps it.
const (
	decayGroups = ""     // as the Trainer does: with and without weight decay
	flatGroups  = "flat" // in one group, as model.parameters() gives them
)

// optimizerNames are the values of "optim": the Trainer's, and "adam", our own,
// for scripts that use torch.optim.Adam.
var optimizerNames = []string{"adamw_torch", "adamw_torch_fused", "sgd", "adam"}

// newOptimizer makes the optimizer that the arguments name, over the groups of
// the job.
func (r *run) newOptimizer() (optimizer, error) {
	o, err := r.args.optimizerOptions()
	if err != nil {
		return nil, err
	}
	groups := []optim.Group{{Options: o, Params: r.params}}
	if r.job.ParamGroups == decayGroups {
		groups = optim.DecayGroups(r.params, o)
	}
	switch r.args.Optim {
	case "sgd":
		return optim.NewSGD(groups)
	case "adam":
		return optim.NewAdam(groups)
	}
	return optim.NewAdamW(groups)
}

// trainerHas tells whether the Trainer has the optimizer and the schedule.
func (a *Arguments) trainerHas() bool { return a.Optim != "adam" && a.trainerHasSchedule() }

func (a *Arguments) optimizerOptions() (optim.Options, error) {
	o := optim.Options{
		LR: a.LearningRate, WeightDecay: a.WeightDecay,
		Beta1: a.AdamBeta1, Beta2: a.AdamBeta2, Eps: a.AdamEpsilon,
	}
	if a.Optim == "adamw_torch_fused" {
		o.Implementation = optim.Fused
	}
	return o, a.applyOptimArgs(&o)
}

// applyOptimArgs reads optim_args, "name=value,…": momentum, dampening and
// nesterov of sgd (as transformers 5.24's trainer_optimizer.py), amsgrad of adam.
func (a *Arguments) applyOptimArgs(o *optim.Options) error {
	if a.OptimArgs == nil || *a.OptimArgs == "" {
		return nil
	}
	numbers, flags := map[string]*float64{}, map[string]*bool{}
	switch a.Optim {
	case "sgd":
		numbers["momentum"], numbers["dampening"], flags["nesterov"] = &o.Momentum, &o.Dampening, &o.Nesterov
	case "adam":
		flags["amsgrad"] = &o.AMSGrad
	}
	for assignment := range strings.SplitSeq(strings.ReplaceAll(*a.OptimArgs, " ", ""), ",") {
		name, value, _ := strings.Cut(assignment, "=")
		var err error
		switch number, flag := numbers[name], flags[name]; {
		case number != nil:
			*number, err = strconv.ParseFloat(value, 64)
		case flag != nil:
			*flag, err = strconv.ParseBool(strings.ToLower(value))
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			expected := fmt.Sprintf("name=value of optim %s: momentum, dampening or nesterov of sgd, amsgrad of adam", a.Optim)
			return &ArgumentError{Name: "optim_args", Found: assignment, Expected: expected}
		}
	}
	return nil
}

// MissingStateError says that a checkpoint lacks a state that a resume needs,
// and how to go on without it.
type MissingStateError struct {
	Path string // the file that is not there
	Flag string // that goes on without it
	Then string // what that means
}

func (e *MissingStateError) Error() string {
	return fmt.Sprintf("%s is missing: this checkpoint cannot be resumed exactly. Name a complete checkpoint, or go on without the file with %s: %s", e.Path, e.Flag, e.Then)
}

const freshOptimizerMeans = "the optimizer's moments begin at zero, so that the loss may jump"

// missingStates refuses a checkpoint that lacks a state, unless the person has
// chosen to go on without it, and says what that means.
func (r *resolver) missingStates() error {
	r.job.FreshOptimizer, r.job.FreshScheduler = r.request.FreshOptimizer, r.request.FreshScheduler
	path := func(name string) string { return filepath.Join(r.job.Checkpoint, name) }
	if !r.job.FreshOptimizer && !r.opened.Has(hf.OptimizerFile) {
		return &MissingStateError{path(hf.OptimizerFile), "--fresh-optimizer", freshOptimizerMeans}
	}
	if r.job.FreshOptimizer && !r.opened.Has(hf.SchedulerFile) {
		r.job.FreshScheduler = true // one choice is enough for weights alone
	}
	if !r.job.FreshScheduler && !r.opened.Has(hf.SchedulerFile) {
		return &MissingStateError{path(hf.SchedulerFile), "--fresh-scheduler", r.job.Arguments.freshSchedulerMeans()}
	}
	if r.job.FreshOptimizer {
		r.warn("--fresh-optimizer: %s", freshOptimizerMeans)
	}
	return nil
}

// restoreOptimizer loads the optimizer's state, unless it is to begin afresh.
func (r *run) restoreOptimizer(path string, read func() (*pyobj.Dict, error)) error {
	if r.job.FreshOptimizer {
		return nil
	}
	state, err := read()
	if err != nil {
		return err
	}
	if err := r.optimizer.LoadStateDict(state); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, notice := range r.optimizer.Notices() {
		r.sayf("%s: %s", path, notice)
	}
	return nil
}

// restoreRates puts the schedule at step, from its saved state where there is
// one, and decides whose learning rates hold: the saved ones, unless the person
// asks for the arguments'.
func (r *run) restoreRates(path string, step int, read func() (*pyobj.Dict, error)) error {
	if r.job.Recount != nil {
		step = r.job.Recount.Step
	}
	at := r.plan.PositionAt(step)
	if r.job.FreshScheduler {
		r.rates.restart(at)
	} else {
		state, err := read()
		if err != nil {
			return err
		}
		if err := r.rates.LoadStateDict(state); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if r.job.Recount != nil {
			r.rates.recounted(at)
		}
	}
	if r.job.FreshOptimizer { // its groups' rates were in the file that is not read
		for i, lr := range r.rates.LastLR() {
			r.optimizer.SetLearningRate(i, lr)
		}
	}
	was := r.optimizer.LearningRate(0)
	if r.job.LRFrom == "args" {
		r.rates.rebase(r.args.LearningRate)
		r.sayf("learning rate: %.6g, the arguments' %.6g scaled by the schedule at step %d (--lr-from args); the checkpoint's was %.6g",
			r.optimizer.LearningRate(0), r.args.LearningRate, step, was)
		return nil
	}
	if base, ok := r.optimizer.InitialLR(0); ok && base != r.args.LearningRate {
		r.sayf("learning rate: %.6g, the checkpoint's, which scales an initial %.6g; the arguments' %.6g is not used (--lr-from args uses it)", was, base, r.args.LearningRate)
	}
	return nil
}
