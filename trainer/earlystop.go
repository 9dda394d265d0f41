package trainer

import (
	"math"

	"rejoin/ckpt/hf"
)

// earlyStopping ends a run whose metric no longer improves: transformers'
// EarlyStoppingCallback.
type earlyStopping struct {
	patience  int     // evaluations without improvement that end the run
	threshold float64 // the least difference that counts as one
	counter   int
}

// observe takes in a metric, before it is compared for the best model's sake,
// and tells whether the run is to end. hasBest is false before the first one.
func (e *earlyStopping) observe(args *Arguments, value, best float64, hasBest bool) (stop bool) {
	if !hasBest || args.better(value, best) && math.Abs(value-best) > e.threshold {
		e.counter = 0
	} else {
		e.counter++
	}
	return e.done()
}

func (e *earlyStopping) done() bool { return e != nil && e.counter >= e.patience }

const earlyStoppingName = "EarlyStoppingCallback"

// state is the callback's entry among the stateful callbacks.
func (e *earlyStopping) state() map[string]any {
	return map[string]any{
		"args": map[string]any{
			"early_stopping_patience": int64(e.patience), "early_stopping_threshold": e.threshold,
		},
		"attributes": map[string]any{"early_stopping_patience_counter": int64(e.counter)},
	}
}

// newEarlyStopping is what the arguments ask for; nil for none. The counter goes
// on where a resumed state left it. (The Trainer does so only under
// restore_callback_states_from_checkpoint; without it a resumed run may stop
// later than the uninterrupted one.)
func newEarlyStopping(args *Arguments, state *hf.TrainerState) *earlyStopping {
	if args.EarlyStoppingPatience == nil {
		return nil
	}
	e := &earlyStopping{patience: *args.EarlyStoppingPatience, threshold: args.EarlyStoppingThreshold}
	if counter, ok := callbackField(state, "attributes", "early_stopping_patience_counter").(int64); ok {
		e.counter = int(max(0, counter))
	}
	return e
}

// callbackField is a value in the state's entry of the callback; nil if it has none.
func callbackField(state *hf.TrainerState, group, name string) any {
	callbacks, _ := state.Get("stateful_callbacks").(map[string]any)
	callback, _ := callbacks[earlyStoppingName].(map[string]any)
	fields, _ := callback[group].(map[string]any)
	return fields[name]
}

// takeEarlyStopping takes the callback's settings from a state that the Trainer
// wrote: no argument of its own holds them.
func (a *Arguments) takeEarlyStopping(state *hf.TrainerState) error {
	for _, name := range []string{"early_stopping_patience", "early_stopping_threshold"} {
		if value := callbackField(state, "args", name); value != nil {
			if err := a.Set(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}
