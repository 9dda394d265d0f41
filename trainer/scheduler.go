package trainer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"rejoin/ckpt/hf/pyjson"
	"rejoin/optim"
	"rejoin/pyobj"
)

// scheduler is what a run needs of a learning rate scheduler of any class. It is
// told what has happened, and steps when its class does.
type scheduler interface {
	Class() string // torch's
	StateDict() *pyobj.Dict
	LoadStateDict(*pyobj.Dict) error
	LastLR() []float64
	LastEpoch() int // the steps made

	// updated is told of every update, and where the run is after it; applied is
	// false for one that was skipped.
	updated(applied bool, at Position)
	// evaluated is told the metric of every evaluation after an update.
	evaluated(metric float64)

	// restart begins at a place of the run without a saved state.
	restart(at Position)
	// recounted goes on at a place that is counted in other updates than before.
	recounted(at Position)
	// rebase makes lr the learning rate that the run began with.
	rebase(lr float64)
	// expected is LastEpoch at a place of the run; exact is false where the
	// place does not decide it.
	expected(at Position) (count int, exact bool)
	// catchUp makes a step that was due when the state was saved; needsMetric
	// tells that the next evaluation has to make it.
	catchUp() (needsMetric bool)
}

// Values of lr_scheduler_interval.
const (
	everyUpdate = "update" // as the Trainer steps its schedulers
	everyEpoch  = "epoch"  // as training scripts mostly step torch's
)

// plateauType is the Trainer's lr_scheduler_type of a ReduceLROnPlateau.
const plateauType = "reduce_lr_on_plateau"

// torchTypes are the values of lr_scheduler_type that stand for classes of
// torch's: the Trainer has the plateau's, the others are our own.
var torchTypes = map[string]string{
	"step": optim.StepLR, "multistep": optim.MultiStepLR, "cosine_annealing": optim.CosineAnnealingLR,
	plateauType: optim.ReduceLROnPlateau,
}

// typeOfClass is the lr_scheduler_type of one of torch's classes; "" for a
// LambdaLR, which many stand for.
func typeOfClass(class string) string {
	for name, c := range torchTypes {
		if c == class {
			return name
		}
	}
	return ""
}

// schedulerClass is the torch class that lr_scheduler_type stands for.
func (a *Arguments) schedulerClass() string {
	if class, ok := torchTypes[a.LRSchedulerType]; ok {
		return class
	}
	return optim.LambdaLR
}

// schedulesOverRun tells whether the schedule is stretched over the run's
// updates, as Hugging Face's are; torch's classes count by themselves.
func (a *Arguments) schedulesOverRun() bool { return a.schedulerClass() == optim.LambdaLR }

// trainerHasSchedule tells whether lr_scheduler_type is one of the Trainer's.
func (a *Arguments) trainerHasSchedule() bool {
	return a.schedulesOverRun() || a.LRSchedulerType == plateauType
}

// newScheduler attaches the scheduler that the arguments name to an optimizer.
func (a *Arguments) newScheduler(optimizer optim.Rates, plan Plan) (scheduler, error) {
	var s *optim.Scheduler
	switch class := a.schedulerClass(); class {
	case optim.ReduceLROnPlateau:
		o, err := optim.PlateauArguments(a.LRSchedulerKwargs)
		if err != nil {
			return nil, err
		}
		p, err := optim.NewPlateau(optimizer, o)
		return &onEvaluation{p, optimizer, a.EvalStrategy == "epoch"}, err
	case optim.LambdaLR:
		schedule, err := optim.NewSchedule(a.LRSchedulerType, plan.WarmupSteps, plan.MaxSteps, a.LRSchedulerKwargs)
		if err != nil {
			return nil, err
		}
		if s, err = optim.NewScheduler(optimizer, schedule); err != nil {
			return nil, err
		}
	default:
		attach, err := optim.TorchSchedule(class, a.LRSchedulerKwargs)
		if err != nil {
			return nil, err
		}
		s = attach(optimizer)
	}
	if a.LRSchedulerInterval == everyEpoch {
		return &onEpoch{s}, nil
	}
	return &onUpdate{s, a.schedulesOverRun()}, nil
}

// onUpdate steps after each update.
type onUpdate struct {
	*optim.Scheduler
	overRun bool // it is stretched over the run's updates
}

func (s *onUpdate) updated(applied bool, _ Position) {
	if applied {
		s.Step()
	}
}

func (s *onUpdate) evaluated(float64) {}

func (s *onUpdate) restart(at Position) { s.Seek(at.Step) }

// recounted: constants that count updates are not changed, so that what has been
// counted is not either: the rates go on without a jump.
func (s *onUpdate) recounted(at Position) {
	if s.overRun {
		s.Seek(at.Step)
	}
}

func (s *onUpdate) rebase(lr float64) { s.Rebase(lr) }

func (s *onUpdate) expected(at Position) (count int, exact bool) { return at.Step, true }

func (s *onUpdate) catchUp() (needsMetric bool) {
	s.Step()
	return false
}

// onEpoch steps after the last update of each epoch.
type onEpoch struct{ *optim.Scheduler }

func (s *onEpoch) updated(_ bool, at Position) {
	if at.Batch == 0 {
		s.Step()
	}
}

func (s *onEpoch) evaluated(float64) {}

func (s *onEpoch) restart(at Position) { s.Seek(at.Epoch) }

func (s *onEpoch) recounted(Position) {}

func (s *onEpoch) rebase(lr float64) { s.Rebase(lr) }

func (s *onEpoch) expected(at Position) (count int, exact bool) { return at.Epoch, true }

func (s *onEpoch) catchUp() (needsMetric bool) {
	s.Step()
	return false
}

// onEvaluation steps after each evaluation, with its metric, as the Trainer
// steps a ReduceLROnPlateau (Trainer._evaluate, transformers 5.24).
type onEvaluation struct {
	*optim.Plateau
	optimizer optim.Rates
	epochs    bool // each epoch ends in one
}

func (s *onEvaluation) updated(bool, Position) {}

func (s *onEvaluation) evaluated(metric float64) { s.Step(metric) }

// restart: metrics that are lost cannot be sought; the rates stay.
func (s *onEvaluation) restart(Position) { s.Restart() }

func (s *onEvaluation) recounted(Position) {}

func (s *onEvaluation) rebase(lr float64) {
	for i := range s.optimizer.NumGroups() {
		s.optimizer.SetLearningRate(i, lr)
	}
	s.Restart()
}

func (s *onEvaluation) expected(at Position) (count int, exact bool) {
	if s.epochs {
		return at.Epoch, false
	}
	return s.LastEpoch(), false
}

func (s *onEvaluation) catchUp() (needsMetric bool) { return true }

// validateScheduler checks the schedule's name, its class's arguments and when it
// is stepped.
func (a *Arguments) validateScheduler(refuse func(name string, found any, expected string)) {
	names := append(optim.ScheduleNames(), slices.Collect(maps.Keys(torchTypes))...)
	slices.Sort(names)
	if !slices.Contains(names, a.LRSchedulerType) {
		refuse("lr_scheduler_type", a.LRSchedulerType, fmt.Sprintf("one of %v", names))
		return
	}
	class := a.schedulerClass()
	if class != optim.LambdaLR {
		if _, err := optim.SchedulerArguments(class, a.LRSchedulerKwargs); err != nil {
			refuse("lr_scheduler_kwargs", fmt.Sprint(map[string]any(a.LRSchedulerKwargs)), fmt.Sprintf("the arguments of lr_scheduler_type %s: %v", a.LRSchedulerType, err))
		}
	}
	switch {
	case a.LRSchedulerInterval != everyUpdate && a.LRSchedulerInterval != everyEpoch:
		refuse("lr_scheduler_interval", a.LRSchedulerInterval, "update or epoch")
	case a.LRSchedulerInterval == everyUpdate || a.LRSchedulerType == "constant":
	case class == optim.LambdaLR:
		refuse("lr_scheduler_interval", everyEpoch, fmt.Sprintf("update: lr_scheduler_type %s counts updates; step, multistep and cosine_annealing can count epochs", a.LRSchedulerType))
	case class == optim.ReduceLROnPlateau:
		refuse("lr_scheduler_interval", everyEpoch, "update, or nothing: reduce_lr_on_plateau is stepped after each evaluation, so that eval_strategy says when")
	}
	if class == optim.ReduceLROnPlateau && a.EvalStrategy == "no" {
		refuse("lr_scheduler_type", a.LRSchedulerType, "an eval_strategy of steps or epoch with it: it goes by the evaluations' loss")
	}
}

// KeywordArguments are lr_scheduler_kwargs: int64, float64, string, bool, nil
// and []any by name. In JSON, as in Python's, 2 is an int and 2.0 a float.
type KeywordArguments map[string]any

// MarshalJSON writes floats as floats.
func (k KeywordArguments) MarshalJSON() ([]byte, error) {
	if k == nil {
		return []byte("null"), nil
	}
	return pyjson.Encode(map[string]any(k))
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (k *KeywordArguments) UnmarshalJSON(text []byte) error {
	v, err := pyjson.Decode(text)
	if err != nil {
		return err
	}
	values, ok := v.(map[string]any)
	if !ok && v != nil {
		return &json.UnmarshalTypeError{Value: string(text), Field: "lr_scheduler_kwargs"}
	}
	*k = values
	return nil
}

// keywordArguments takes values as YAML gives them: it calls 1e-3 a word.
func keywordArguments(values map[string]any) KeywordArguments {
	if values == nil {
		return nil
	}
	out := make(KeywordArguments, len(values))
	for name, v := range values {
		out[name] = keywordValue(v)
	}
	return out
}

func keywordValue(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case string:
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return f
		}
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = keywordValue(item)
		}
		return out
	}
	return v
}
