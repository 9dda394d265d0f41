package trainer

import "context"

// control holds the switches of transformers' TrainerControl: what is to be done
// at the moment. Each is set back when it is done; stop stays.
type control struct{ log, evaluate, save, stop bool }

// stepEnd switches on what follows the update that led to step. Source:
// DefaultFlowCallback.on_step_end, transformers 5.24.
func (p Plan) stepEnd(args *Arguments, step int, c *control) {
	c.log = args.LoggingFirstStep && step == 1 || args.LoggingStrategy == "steps" && step%p.LoggingSteps == 0
	c.save = args.SaveStrategy == "steps" && step%p.SaveSteps == 0
	evaluates := args.EvalStrategy == "steps" && args.EvalDelay <= float64(step)
	c.evaluate = evaluates && step%p.EvalSteps == 0
	if step >= p.MaxSteps {
		c.stop = true
		c.evaluate = evaluates
		c.save = args.SaveStrategy == "steps"
	}
}

// epochEnd switches on what follows an epoch, or the run's end within one, after
// what stepEnd asked for is done. epoch counts as the log does. Source:
// DefaultFlowCallback.on_epoch_end.
func (p Plan) epochEnd(args *Arguments, epoch float64, c *control) {
	c.log = c.log || args.LoggingStrategy == "epoch"
	c.evaluate = args.EvalStrategy == "epoch" && args.EvalDelay <= epoch
	c.save = args.SaveStrategy == "epoch"
}

// measured is what the last update left for the log.
type measured struct {
	gradNorm     float64
	learningRate float64
}

// afterUpdate logs, evaluates and saves as the strategies say: first by steps,
// then, at an epoch's end, by epochs. asked is what the ranks agreed on with the
// update's gradients: a person may have asked to save, or to save and leave.
func (r *run) afterUpdate(ctx context.Context, asked wishes) error {
	r.reportSave(r.saver.poll())
	if asked.settle {
		if err := r.settleSave(ctx); err != nil {
			return err
		}
	}
	r.plan.stepEnd(r.args, r.pos.Step, &r.control)
	r.control.save = r.control.save || asked.save || asked.stop
	if err := r.perform(ctx); err != nil {
		return err
	}
	if asked.stop && !r.control.stop {
		r.leave() // what is still due by epochs, the resumed run does first
		return nil
	}
	if r.pos.Batch != 0 && !r.control.stop {
		return nil
	}
	return r.endEpoch(ctx)
}

// endEpoch does what is due by epochs. A checkpoint that was saved before it, by
// steps, says so: the resumed run does it first.
func (r *run) endEpoch(ctx context.Context) error {
	r.epochEnding = true
	defer func() { r.epochEnding = false }()
	r.plan.epochEnd(r.args, r.state.Epoch(), &r.control)
	return r.perform(ctx)
}

// owesEpochEnd tells whether something is still due by epochs at this position.
func (r *run) owesEpochEnd() bool {
	if r.epochEnding || r.pos.Batch != 0 || r.pos.Step == 0 {
		return false
	}
	var c control
	r.plan.epochEnd(r.args, r.state.Epoch(), &c)
	return c.log && r.pos.Step > r.loss.lastLogged || c.evaluate
}

// perform does what is switched on, in the Trainer's order
// (_maybe_log_save_evaluate).
func (r *run) perform(ctx context.Context) error {
	if r.control.log && r.pos.Step > r.loss.lastLogged {
		if err := r.log(ctx); err != nil {
			return err
		}
		r.control.log = false
	}
	if r.control.evaluate {
		isBest, err := r.evaluateAndJudge(ctx)
		if err != nil {
			return err
		}
		if r.args.SaveStrategy == "best" {
			r.control.save = r.control.save || isBest
		}
		r.control.evaluate, r.control.log = false, false
	}
	if !r.control.save {
		return nil
	}
	if err := r.startSave(ctx, r.control.stop); err != nil {
		return err
	}
	r.control.save = false
	return nil
}
