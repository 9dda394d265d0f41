package optim

import (
	"errors"
	"fmt"
	"math"

	"rejoin/pyobj"
)

// Scheduler sets an optimizer's learning rates by a schedule, as torch's
// LambdaLR does: rate = initial rate × factor(last epoch), where an "epoch" is
// an optimizer step.
type Scheduler struct {
	optimizer *Adam
	schedule  Schedule
	baseLRs   []float64
	lastEpoch int
	stepCount int
	lastLR    []float64
	// extra are the entries of a loaded state dict that are not known here.
	extra []pyobj.Entry
}

// NewScheduler attaches a schedule to an optimizer. As torch's constructor
// does, it notes each group's learning rate as its initial one, if it has none
// yet, and sets the rates of step 0. So attach first and load state after:
// optimizer, then scheduler. A schedule that [NewSchedule] did not make is an error.
func NewScheduler(optimizer *Adam, schedule Schedule) (*Scheduler, error) {
	if schedule.factor == nil {
		return nil, errors.New("scheduler got no learning rate schedule")
	}
	s := &Scheduler{optimizer: optimizer, schedule: schedule, lastEpoch: -1}
	for i := range optimizer.NumGroups() {
		optimizer.setInitialLR(i, optimizer.LearningRate(i))
		base, _ := optimizer.InitialLR(i)
		s.baseLRs = append(s.baseLRs, base)
	}
	s.Step()
	return s, nil
}

// Step moves to the next step and sets the optimizer's learning rates. Call it
// after the optimizer's step.
func (s *Scheduler) Step() {
	s.stepCount++
	s.lastEpoch++
	factor := s.schedule.Factor(s.lastEpoch)
	s.lastLR = make([]float64, len(s.baseLRs))
	for i, base := range s.baseLRs {
		s.lastLR[i] = base * factor
		s.optimizer.SetLearningRate(i, s.lastLR[i])
	}
}

// LastLR are the learning rates per group that the scheduler set last; the
// Trainer logs the first. The caller must not change the slice.
func (s *Scheduler) LastLR() []float64 { return s.lastLR }

// LastEpoch is the number of steps since step 0.
func (s *Scheduler) LastEpoch() int { return s.lastEpoch }

// StateDict is the scheduler's state as LambdaLR.state_dict gives it, what
// scheduler.pt holds. It does not hold the schedule itself.
func (s *Scheduler) StateDict() *pyobj.Dict {
	d := pyobj.NewDict(
		"base_lrs", floatList(s.baseLRs),
		"last_epoch", int64(s.lastEpoch),
		"_step_count", int64(s.stepCount),
		"_is_initial", false,
		"_get_lr_called_within_step", false,
		"_last_lr", floatList(s.lastLR),
	)
	for _, e := range s.extra {
		d.Set(e.Key, e.Value)
	}
	lambdas := &pyobj.List{}
	for range s.baseLRs {
		if s.schedule.function {
			lambdas.Items = append(lambdas.Items, nil)
		} else {
			lambdas.Items = append(lambdas.Items, pyobj.NewDict())
		}
	}
	d.Set("lr_lambdas", lambdas)
	return d
}

func floatList(values []float64) *pyobj.List {
	l := &pyobj.List{}
	for _, v := range values {
		l.Items = append(l.Items, v)
	}
	return l
}

// LoadStateDict replaces the scheduler's counters and base rates by those of a
// state dict. As in torch, the schedule stays, and so do the optimizer's
// current learning rates, until the next [Scheduler.Step]. Keys that are not
// known are kept and written back.
//
// The error is a [*StateError]; then nothing has changed.
func (s *Scheduler) LoadStateDict(d *pyobj.Dict) error {
	r := schedulerReader{dict: d, next: *s}
	r.lambdas()
	r.rates("base_lrs", &r.next.baseLRs)
	r.rates("_last_lr", &r.next.lastLR)
	r.count("last_epoch", &r.next.lastEpoch)
	r.count("_step_count", &r.next.stepCount)
	if r.err != nil {
		return r.err
	}
	var c pyobj.Cloner
	r.next.extra = nil
	for _, e := range d.Entries() {
		switch e.Key {
		case "base_lrs", "last_epoch", "_step_count", "_is_initial", "_get_lr_called_within_step", "_last_lr", "lr_lambdas":
		default:
			r.next.extra = append(r.next.extra, pyobj.Entry{Key: e.Key, Value: c.Clone(e.Value)})
		}
	}
	*s = r.next
	return nil
}

const (
	maxLR    = math.MaxFloat64 // not infinity, not NaN
	maxCount = 1 << 53         // steps that float64 still counts
)

// schedulerReader reads a state dict into next; the first error sticks.
type schedulerReader struct {
	dict *pyobj.Dict
	next Scheduler
	err  error
}

func (r *schedulerReader) fail(key string, err error) {
	if err != nil && r.err == nil {
		r.err = stateError(key, err)
	}
}

func (r *schedulerReader) value(key string) (any, bool) {
	v, ok := r.dict.Get(key)
	if !ok {
		r.fail("", fmt.Errorf("not a LambdaLR's state dict, which the Trainer's schedules are: key %q is missing; it has %s", key, keyList(r.dict)))
	}
	return v, ok
}

// lambdas refuses the state of a user's own callable, which this schedule
// cannot honour.
func (r *schedulerReader) lambdas() {
	v, ok := r.value("lr_lambdas")
	if !ok {
		return
	}
	items, err := pyobj.AsItems(v)
	r.fail("lr_lambdas", err)
	for i, item := range items {
		if item == nil {
			continue
		}
		state, err := pyobj.AsDict(item)
		if err == nil && state.Len() != 0 {
			err = fmt.Errorf("it holds the state of a callable of the training script's own (%s), not of the schedule %q", keyList(state), r.next.schedule.name)
		}
		r.fail(fmt.Sprintf("lr_lambdas[%d]", i), err)
	}
}

func (r *schedulerReader) rates(key string, dst *[]float64) {
	v, ok := r.value(key)
	if !ok {
		return
	}
	items, err := pyobj.AsItems(v)
	if err == nil && len(items) != len(r.next.baseLRs) {
		err = fmt.Errorf("it has %d learning rates, the optimizer has %d parameter groups", len(items), len(r.next.baseLRs))
	}
	if err != nil {
		r.fail(key, err)
		return
	}
	rates := make([]float64, len(items))
	for i, item := range items {
		rates[i], err = readScalar(item)
		if err == nil && !(rates[i] >= 0 && rates[i] <= maxLR) {
			err = fmt.Errorf("%v is not a learning rate", rates[i])
		}
		r.fail(fmt.Sprintf("%s[%d]", key, i), err)
	}
	*dst = rates
}

func (r *schedulerReader) count(key string, dst *int) {
	v, ok := r.value(key)
	if !ok {
		return
	}
	n, err := pyobj.AsInt(v)
	if err == nil && (n < 0 || n > maxCount) {
		err = fmt.Errorf("%d is not a number of steps", n)
	}
	r.fail(key, err)
	*dst = int(n)
}
