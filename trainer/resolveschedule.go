package trainer

import (
	"fmt"
	"path/filepath"
	"reflect"

	"rejoin/ckpt/dictfile"
	"rejoin/ckpt/hf"
	"rejoin/optim"
)

// savedSchedule is what the checkpoint's scheduler state says of itself.
type savedSchedule struct {
	optim.SavedScheduler
	path string
	// unclear tells that a script's dict does not show when it was stepped.
	unclear bool
}

// SchedulerClassError says that the saved scheduler is of another class than the
// one that lr_scheduler_type stands for.
type SchedulerClassError struct {
	Path     string
	Found    string // torch's class; "" for one that Rejoin does not have
	Keys     string // of the state
	Type     string // lr_scheduler_type
	Expected string // its class
}

func (e *SchedulerClassError) Error() string {
	const fresh = "--fresh-scheduler begins the schedule anew"
	if e.Found == "" {
		return fmt.Sprintf("%s holds the state of a scheduler that Rejoin does not have (it has %s), and lr_scheduler_type %s is torch's %s; %s", e.Path, e.Keys, e.Type, e.Expected, fresh)
	}
	goOn := "--set lr_scheduler_type with the run's own schedule, such as linear,"
	if name := typeOfClass(e.Found); name != "" {
		goOn = "--set lr_scheduler_type=" + name
	}
	return fmt.Sprintf("%s holds the state of a %s, but lr_scheduler_type %s is torch's %s; %s goes on with it, %s", e.Path, e.Found, e.Type, e.Expected, goOn, fresh)
}

// describeSchedule notes what scheduler.pt says of itself. One that cannot be
// read is the ranks' to report: they all read it.
func (r *resolver) describeSchedule() {
	if r.job.FreshScheduler {
		return
	}
	state, err := r.opened.Scheduler()
	if err != nil {
		return
	}
	if saved, err := optim.DescribeScheduler(state); err == nil {
		r.saved = &savedSchedule{SavedScheduler: saved, path: filepath.Join(r.job.Checkpoint, hf.SchedulerFile)}
	}
}

// keepSchedule holds the arguments against the saved schedule: its class must be
// theirs, and its constants are those of the file, as in torch.
func (r *resolver) keepSchedule() error {
	args := &r.job.Arguments
	class := args.schedulerClass()
	if class != optim.LambdaLR && args.WarmupSteps > 0 {
		r.warn("warmup_steps has no effect: lr_scheduler_type %s, torch's %s, has no warm-up", args.LRSchedulerType, class)
	}
	if args.LRSchedulerType == plateauType && args.LRSchedulerKwargs["mode"] == "max" {
		r.say("reduce_lr_on_plateau has mode max: it lowers the learning rate while the loss does not grow, as the Trainer's does; mode min is for a loss")
	}
	switch {
	case !r.job.Resuming():
	case r.job.FreshScheduler:
		if r.request.FreshScheduler || r.job.Checkpoint != "" || class == optim.ReduceLROnPlateau {
			r.warn("--fresh-scheduler: %s", args.freshSchedulerMeans())
		}
	case class == optim.ReduceLROnPlateau && r.job.LRFrom == "args":
		return requestError("--lr-from args: the learning rate under reduce_lr_on_plateau is what its reductions have left, which no other first rate tells; with --fresh-scheduler it begins anew at the arguments' %v", args.LearningRate)
	case r.saved == nil:
	case class != r.saved.Class:
		return &RequestError{&SchedulerClassError{r.saved.path, r.saved.Class, r.saved.Keys, args.LRSchedulerType, class}}
	case class != optim.LambdaLR:
		r.keepConstants()
	}
	return nil
}

// keepConstants sets lr_scheduler_kwargs to the constants that the saved
// scheduler holds, which win, and says so where others were asked for.
func (r *resolver) keepConstants() {
	args := &r.job.Arguments
	saved := r.saved.Arguments
	equal := func(kwargs KeywordArguments) bool {
		values, err := optim.SchedulerArguments(r.saved.Class, kwargs)
		return err == nil && reflect.DeepEqual(values, saved)
	}
	if saved == nil || equal(args.LRSchedulerKwargs) {
		return
	}
	if r.given["lr_scheduler_kwargs"] {
		r.warn("lr_scheduler_kwargs has no effect on a resumed run: %s holds them (%v); --fresh-scheduler begins anew with %v", r.saved.path, saved, map[string]any(args.LRSchedulerKwargs))
	}
	args.LRSchedulerKwargs = saved
	if r.before.LRSchedulerType == args.LRSchedulerType && equal(r.before.LRSchedulerKwargs) {
		args.LRSchedulerKwargs = r.before.LRSchedulerKwargs
	}
}

// freshSchedulerMeans says what going on without the saved schedule means.
func (a *Arguments) freshSchedulerMeans() string {
	if a.LRSchedulerType == plateauType {
		return "reduce_lr_on_plateau begins anew, with no best loss and no bad evaluations counted; the learning rate stays"
	}
	return "the learning rate is the one that the arguments' schedule has at the checkpoint's step"
}

// recountedScheduleMeans says what a schedule does when updates are counted anew.
func (a *Arguments) recountedScheduleMeans() string {
	switch {
	case a.schedulesOverRun():
		return "the learning rate goes on at the same share of the schedule"
	case a.LRSchedulerType == plateauType:
		return "reduce_lr_on_plateau goes on with the next evaluation"
	case a.LRSchedulerInterval == everyEpoch:
		return fmt.Sprintf("the %s schedule goes on counting epochs", a.LRSchedulerType)
	}
	return fmt.Sprintf("the %s schedule goes on counting, new updates from now on", a.LRSchedulerType)
}

// dictSchedule takes from a script's dict what its scheduler's state says: the
// class, its constants, and, by what it has counted, when it was stepped. updates
// are those that the optimizer counts; 0 if it does not.
func (r *resolver) dictSchedule(path string, c *dictfile.Contents, updates int) error {
	state, err := optim.DescribeScheduler(c.Scheduler)
	if err != nil {
		return fmt.Errorf("%s: its scheduler: %w; --fresh-scheduler goes on without its state", path, err)
	}
	args := &r.job.Arguments
	name := typeOfClass(state.Class)
	switch {
	case state.Class == "":
		return &MissingStateError{
			path + ": the state of a LambdaLR, StepLR, MultiStepLR, CosineAnnealingLR or ReduceLROnPlateau, which are those that Rejoin has (its own has " + state.Keys + "),",
			"--fresh-scheduler", args.freshSchedulerMeans(),
		}
	case state.Missing != nil:
		return &MissingStateError{
			fmt.Sprintf("%s: %s of its %s", path, joinWords(state.Missing), state.Class),
			fmt.Sprintf("--fresh-scheduler --set lr_scheduler_type=%s and all of its constants in --set lr_scheduler_kwargs={…}", name), args.freshSchedulerMeans(),
		}
	case state.Class == optim.ReduceLROnPlateau && state.Arguments["mode"] == "max":
		return fmt.Errorf("%s: its ReduceLROnPlateau has mode max: it went by a measure of which more is better, and Rejoin measures the loss; --fresh-scheduler goes on without its state", path)
	}
	r.saved = &savedSchedule{SavedScheduler: state, path: path}
	if name != "" {
		args.LRSchedulerType, args.LRSchedulerKwargs = name, state.Arguments
	}
	interval := intervalOf(state.LastEpoch, c.Epoch, updates)
	r.saved.unclear = interval == ""
	switch {
	case state.Class == optim.ReduceLROnPlateau:
		args.EvalStrategy = "epoch"
		r.saved.unclear = interval != everyEpoch
	case interval != "":
		args.LRSchedulerInterval = interval
	}
	return nil
}

// intervalOf tells by a scheduler's count when it was stepped: by epochs if it is
// the dict's epoch, or one more as that is counted from 0; by updates if it is
// what the optimizer counts, or one less as it was saved before its step; "" if
// neither.
func intervalOf(count, epoch, updates int) string {
	switch {
	case count == epoch || count == epoch+1:
		return everyEpoch
	case updates > 0 && (count == updates || count == updates-1):
		return everyUpdate
	}
	return ""
}

// scheduleLacks are what a script's dict does not say of its schedule.
func (r *resolver) scheduleLacks() (lacks []Lack) {
	if r.saved == nil {
		if r.hiddenSchedule != "" && !r.given["lr_scheduler_type"] {
			lacks = append(lacks, Lack{r.hiddenSchedule, "--set lr_scheduler_type=step --set 'lr_scheduler_kwargs={step_size: 30}'"})
		}
		return lacks
	}
	if r.saved.Class == optim.LambdaLR && !r.given["lr_scheduler_type"] {
		lacks = append(lacks, Lack{"which schedule it was: a LambdaLR does not save its function", "--set lr_scheduler_type=linear"})
	}
	switch {
	case r.saved.Class == optim.ReduceLROnPlateau:
		if r.saved.unclear && !r.given["eval_strategy"] {
			lacks = append(lacks, Lack{fmt.Sprintf("when it evaluated: its ReduceLROnPlateau has taken in %d measurements, which are not the epochs", r.saved.LastEpoch), "--set eval_strategy=epoch, or steps"})
		}
		if r.request.EvalData == "" {
			lacks = append(lacks, Lack{"the data whose loss its ReduceLROnPlateau goes by", "--eval-data FILE"})
		}
	case r.saved.unclear && !r.given["lr_scheduler_interval"]:
		lacks = append(lacks, Lack{fmt.Sprintf("what its %s counts, of which it has %d", r.saved.Class, r.saved.LastEpoch), "--set lr_scheduler_interval=epoch, or update"})
	}
	return lacks
}
