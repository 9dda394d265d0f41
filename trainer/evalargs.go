package trainer

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// complete fills in what the Trainer works out from other arguments
// (TrainingArguments.__post_init__, transformers 5.24).
func (a *Arguments) complete() {
	if a.EvalStrategy == "steps" && (a.EvalSteps == nil || *a.EvalSteps == 0) {
		steps := a.LoggingSteps
		a.EvalSteps = &steps
	}
	if a.MetricForBestModel == nil && (a.LoadBestModelAtEnd || a.LRSchedulerType == "reduce_lr_on_plateau") {
		metric := "loss"
		a.MetricForBestModel = &metric
	}
	if a.GreaterIsBetter == nil && a.MetricForBestModel != nil {
		greater := !strings.HasSuffix(*a.MetricForBestModel, "loss")
		a.GreaterIsBetter = &greater
	}
}

// validateEvaluation refuses what cannot be evaluated, or would never come about.
func (a *Arguments) validateEvaluation(refuse func(name string, found any, expected string)) {
	switch a.EvalStrategy {
	case "no", "epoch":
	case "steps":
		if a.EvalSteps == nil || !(*a.EvalSteps > 0) || math.IsInf(*a.EvalSteps, 0) {
			refuse("eval_steps", python(plainFloat(a.EvalSteps)), "a number above 0")
		}
	default:
		refuse("eval_strategy", a.EvalStrategy, "one of no, steps, epoch")
	}
	if a.evaluates() && a.PerDeviceEvalBatchSize < 1 {
		refuse("per_device_eval_batch_size", a.PerDeviceEvalBatchSize, "a number above 0")
	}
	if !(a.EvalDelay >= 0) {
		refuse("eval_delay", a.EvalDelay, "0 or more")
	}
	if m := a.MetricForBestModel; m != nil && *m != "loss" && *m != evalLoss {
		refuse("metric_for_best_model", *m, "loss: it is all that is measured")
	}
	if a.OnNaN != nanStop && a.OnNaN != nanSkip && a.OnNaN != nanGoOn {
		refuse("on_nan", a.OnNaN, "one of stop, skip, go-on")
	}
	a.validateBest(refuse)
}

// validateBest checks what needs evaluations to go by.
func (a *Arguments) validateBest(refuse func(name string, found any, expected string)) {
	never := a.EvalStrategy == "no"
	if a.SaveStrategy == "best" && (never || a.MetricForBestModel == nil) {
		refuse("save_strategy", "best", "an eval_strategy of steps or epoch and a metric_for_best_model with it")
	}
	if a.EarlyStoppingPatience != nil {
		if *a.EarlyStoppingPatience < 1 {
			refuse("early_stopping_patience", *a.EarlyStoppingPatience, "a number above 0, or None")
		}
		if never || a.MetricForBestModel == nil {
			refuse("early_stopping_patience", *a.EarlyStoppingPatience, "an eval_strategy of steps or epoch and a metric_for_best_model with it")
		}
	}
	if !(a.EarlyStoppingThreshold >= 0) {
		refuse("early_stopping_threshold", a.EarlyStoppingThreshold, "0 or more")
	}
	if !a.LoadBestModelAtEnd || a.SaveStrategy == "best" {
		return
	}
	if a.EvalStrategy != a.SaveStrategy {
		refuse("load_best_model_at_end", "True with save_strategy "+a.SaveStrategy,
			fmt.Sprintf("the same strategy as eval_strategy %s, or best", a.EvalStrategy))
	} else if a.EvalStrategy == "steps" && a.EvalSteps != nil && !multiple(a.SaveSteps, *a.EvalSteps) {
		refuse("load_best_model_at_end", fmt.Sprintf("True with save_steps %v", a.SaveSteps),
			fmt.Sprintf("a multiple of eval_steps %v, so that what is evaluated can be saved", *a.EvalSteps))
	}
}

// multiple tells whether a is a multiple of b, both numbers of steps or both
// fractions of the run.
func multiple(a, b float64) bool {
	if a < 1 && b < 1 {
		a, b = math.Round(a*1e6), math.Round(b*1e6)
	} else if a < 1 || b < 1 {
		return false
	}
	return b > 0 && math.Mod(a, b) == 0
}

func plainFloat(f *float64) any {
	if f == nil {
		return nil
	}
	return *f
}

// evalData finds the evaluation data, if there is any.
func (r *resolver) evalData() error {
	path, own := r.request.EvalData, ""
	if r.manifest != nil {
		own, r.job.EvalDataDigest = evalDataOf(r.manifest)
	}
	evaluates := r.job.Arguments.evaluates()
	if path == "" && evaluates {
		path = own
	}
	switch {
	case path == "" && evaluates:
		return fmt.Errorf("the run evaluates (eval_strategy %s) but there is no data for it; name it with --eval-data FILE, or set eval_strategy=no and eval_on_start=false", r.job.Arguments.EvalStrategy)
	case path == "":
		r.job.EvalDataDigest = ""
		return nil
	case !evaluates:
		r.job.EvalDataDigest = ""
		r.warn("--eval-data has no effect: the run does not evaluate; --set eval_strategy=steps or epoch makes it")
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("evaluation data: %w; name it with --eval-data FILE", err)
	}
	var err error
	r.job.EvalData, err = filepath.Abs(path)
	return err
}
