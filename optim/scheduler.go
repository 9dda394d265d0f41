package optim

import (
	"errors"
	"fmt"
	"slices"

	"rejoin/pyobj"
)

// Rates are an optimizer's learning rates, as a scheduler needs them; [*Adam]
// and [*SGD] meet it.
type Rates interface {
	NumGroups() int
	LearningRate(i int) float64
	SetLearningRate(i int, lr float64)
	InitialLR(i int) (lr float64, ok bool)
	SetInitialLR(i int, lr float64)
	DefaultLR() float64
}

// Scheduler sets an optimizer's learning rates step by step, as one of torch's
// LRScheduler classes. What it calls an epoch is a call of [Scheduler.Step]:
// the Trainer makes one after every optimizer step.
type Scheduler struct {
	optimizer Rates
	rule      rule
	baseLRs   []float64
	lastEpoch int
	stepCount int
	lastLR    []float64
	// extra are the entries of a loaded state dict that are not known here.
	extra []pyobj.Entry
}

// rule is where one scheduler class differs from another.
type rule interface {
	class() string // torch's
	// arguments are the constants, as the class's constructor takes them.
	arguments() map[string]any
	// next is the learning rate of a group at epoch, from its current and its
	// base rate; lr is the optimizer's default.
	next(epoch int, current, base, lr float64) float64
	// at is the closed form of next: the rate at epoch without those before.
	at(epoch int, base, lr float64) float64
	// attributes are the class's own entries of the state dict; first tells
	// that they come before the common ones.
	attributes(groups int) (entries []pyobj.Entry, first bool)
	// load is the rule with the attributes of a state dict.
	load(r *schedulerReader) rule
}

// commonKeys are the entries that all scheduler classes have, in torch's order.
var commonKeys = []string{"base_lrs", "last_epoch", "_step_count", "_is_initial", "_get_lr_called_within_step", "_last_lr"}

// NewScheduler attaches a schedule to an optimizer, as torch's LambdaLR: rate =
// initial rate × factor(last epoch). As torch's constructor does, it notes each
// group's learning rate as its initial one, if it has none yet, and sets the
// rates of step 0. So attach first and load state after: optimizer, then
// scheduler. A schedule that [NewSchedule] did not make is an error.
func NewScheduler(optimizer Rates, schedule Schedule) (*Scheduler, error) {
	if schedule.factor == nil {
		return nil, errors.New("scheduler got no learning rate schedule")
	}
	if schedule.checkLR != nil {
		if err := schedule.checkLR(optimizer.DefaultLR()); err != nil {
			return nil, fmt.Errorf("learning rate schedule %q: %w", schedule.name, err)
		}
	}
	return newScheduler(optimizer, lambdaRule{schedule}), nil
}

func newScheduler(optimizer Rates, r rule) *Scheduler {
	s := &Scheduler{optimizer: optimizer, rule: r, lastEpoch: -1}
	s.takeBaseLRs()
	s.Step()
	return s
}

// takeBaseLRs notes the groups' initial rates, which are the current ones of
// groups that have none.
func (s *Scheduler) takeBaseLRs() {
	s.baseLRs = nil
	for i := range s.optimizer.NumGroups() {
		if _, ok := s.optimizer.InitialLR(i); !ok {
			s.optimizer.SetInitialLR(i, s.optimizer.LearningRate(i))
		}
		base, _ := s.optimizer.InitialLR(i)
		s.baseLRs = append(s.baseLRs, base)
	}
}

// Step moves to the next step and sets the optimizer's learning rates. Call it
// after the optimizer's step.
func (s *Scheduler) Step() {
	s.stepCount++
	s.lastEpoch++
	s.setRates(func(i int) float64 {
		return s.rule.next(s.lastEpoch, s.optimizer.LearningRate(i), s.baseLRs[i], s.optimizer.DefaultLR())
	})
}

func (s *Scheduler) setRates(rate func(group int) float64) {
	s.lastLR = make([]float64, len(s.baseLRs))
	for i := range s.baseLRs {
		s.lastLR[i] = rate(i)
		s.optimizer.SetLearningRate(i, s.lastLR[i])
	}
}

// maxChained is up to where [Scheduler.Seek] goes through every step.
const maxChained = 1 << 20

// Seek moves to epoch as if [Scheduler.Step] had been called that often from
// the optimizer's initial rates on, for a run whose scheduler state is lost.
// After 2^20 steps, a class that computes rate from rate comes out rounded as by
// its closed form.
func (s *Scheduler) Seek(epoch int) {
	s.takeBaseLRs()
	s.lastEpoch, s.stepCount = epoch, epoch+1
	lr := s.optimizer.DefaultLR()
	_, direct := s.rule.(lambdaRule)
	s.setRates(func(i int) float64 {
		base := s.baseLRs[i]
		if epoch > 0 && (direct || epoch > maxChained) {
			return s.rule.at(epoch, base, lr)
		}
		rate := base
		for e := range epoch + 1 {
			rate = s.rule.next(e, rate, base, lr)
		}
		return rate
	})
}

// Rebase makes lr the initial rate of every group, and sets the rates that the
// schedule gives for it at the current step.
func (s *Scheduler) Rebase(lr float64) {
	for i := range s.optimizer.NumGroups() {
		s.optimizer.SetInitialLR(i, lr)
	}
	s.Seek(s.lastEpoch)
}

// LastLR are the learning rates per group that the scheduler set last; the
// Trainer logs the first. The caller must not change the slice.
func (s *Scheduler) LastLR() []float64 { return s.lastLR }

// LastEpoch is the number of steps since step 0.
func (s *Scheduler) LastEpoch() int { return s.lastEpoch }

// Class is torch's: one of [LambdaLR], [StepLR], [MultiStepLR] and [CosineAnnealingLR].
func (s *Scheduler) Class() string { return s.rule.class() }

// StateDict is the scheduler's state as torch's state_dict gives it, what
// scheduler.pt holds. That of a LambdaLR does not hold the schedule itself.
func (s *Scheduler) StateDict() *pyobj.Dict {
	d := pyobj.NewDict()
	own, first := s.rule.attributes(len(s.baseLRs))
	addOwn := func() {
		for _, e := range own {
			d.Set(e.Key, e.Value)
		}
	}
	if first {
		addOwn()
	}
	for i, v := range []any{floatList(s.baseLRs), int64(s.lastEpoch), int64(s.stepCount), false, false, floatList(s.lastLR)} {
		d.Set(commonKeys[i], v)
	}
	for _, e := range s.extra {
		d.Set(e.Key, e.Value)
	}
	if !first {
		addOwn()
	}
	return d
}

// LoadStateDict replaces the scheduler's counters, base rates and, but for a
// LambdaLR, its constants by those of a state dict. As in torch, a LambdaLR's
// schedule stays, and so do the optimizer's current learning rates, until the
// next [Scheduler.Step]. Keys that are not known are kept and written back.
//
// The error is a [*StateError]; then nothing has changed.
func (s *Scheduler) LoadStateDict(d *pyobj.Dict) error {
	r := schedulerReader{dict: d, known: slices.Clone(commonKeys), groups: s.optimizer.NumGroups()}
	next := *s
	next.rule = s.rule.load(&r)
	next.baseLRs = r.rates("base_lrs")
	next.lastLR = r.rates("_last_lr")
	next.lastEpoch = r.count("last_epoch", 0)
	next.stepCount = r.count("_step_count", 0)
	if r.err != nil {
		return r.err
	}
	next.extra = r.extra()
	*s = next
	return nil
}

// lambdaRule is torch's LambdaLR.
type lambdaRule struct{ schedule Schedule }

func (lambdaRule) class() string { return LambdaLR }

func (lambdaRule) arguments() map[string]any { return nil }

func (l lambdaRule) next(epoch int, _, base, lr float64) float64 { return l.at(epoch, base, lr) }

func (l lambdaRule) at(epoch int, base, lr float64) float64 {
	return base * l.schedule.factor(epoch, lr)
}

func (l lambdaRule) attributes(groups int) (entries []pyobj.Entry, first bool) {
	lambdas := &pyobj.List{}
	for range groups {
		if l.schedule.function {
			lambdas.Items = append(lambdas.Items, nil)
		} else {
			lambdas.Items = append(lambdas.Items, pyobj.NewDict())
		}
	}
	return []pyobj.Entry{{Key: "lr_lambdas", Value: lambdas}}, false
}

// load refuses the state of a user's own callable, which this schedule cannot honour.
func (l lambdaRule) load(r *schedulerReader) rule {
	r.class = "a LambdaLR's state dict, which the Trainer's schedules are"
	v, ok := r.value("lr_lambdas")
	if !ok {
		return l
	}
	items, err := pyobj.AsItems(v)
	r.fail("lr_lambdas", err)
	for i, item := range items {
		if item == nil {
			continue
		}
		state, err := pyobj.AsDict(item)
		if err == nil && state.Len() != 0 {
			err = fmt.Errorf("it holds the state of a callable of the training script's own (%s), not of the schedule %q", keyList(state), l.schedule.name)
		}
		r.fail(fmt.Sprintf("lr_lambdas[%d]", i), err)
	}
	return l
}
