package trainer

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"

	"rejoin/ckpt/hf"
)

// greater tells whether a larger value of the metric is a better one.
func (a *Arguments) greater() bool { return a.GreaterIsBetter != nil && *a.GreaterIsBetter }

// better compares as numpy's less or greater does: nothing is better than NaN,
// nor NaN than anything.
func (a *Arguments) better(value, than float64) bool {
	if a.greater() {
		return value > than
	}
	return value < than
}

// judge notes whether value is the best of the run, as the Trainer's
// _determine_best_metric does.
func (r *run) judge(value float64) (isBest bool) {
	if r.args.MetricForBestModel == nil {
		return false
	}
	best, found := r.state.BestMetric()
	if !found {
		best = math.Inf(1)
		if r.args.greater() {
			best = math.Inf(-1)
		}
		r.state.Set("best_metric", best)
	}
	if !r.args.better(value, best) {
		return false
	}
	r.state.Set("best_metric", value)
	if r.args.SaveStrategy != "no" {
		r.state.Set("best_global_step", r.pos.Step)
	}
	return true
}

// noteBestCheckpoint names the best model's checkpoint in the state, if that is
// the one being saved or one that was saved before.
func (r *run) noteBestCheckpoint() {
	best := r.state.BestGlobalStep()
	if best > 0 && (best == r.pos.Step || r.savedSteps[best]) {
		r.state.Set("best_model_checkpoint", filepath.Join(r.job.OutputDir, hf.DirName(best)))
	}
}

// findBestCheckpoint resolves the best model's checkpoint that a resumed state
// names. A run's directory may have moved, so one that is gone is looked for
// beside the checkpoint that is resumed; else it is forgotten with a warning, as
// the Trainer does (_init_training_state).
func (r *run) findBestCheckpoint() {
	path := r.state.BestModelCheckpoint()
	if path == "" || isDir(path) {
		return
	}
	beside := filepath.Join(filepath.Dir(r.job.Checkpoint), filepath.Base(filepath.FromSlash(path)))
	if _, named := hf.StepOfName(filepath.Base(beside)); named && isDir(beside) {
		r.state.Set("best_model_checkpoint", beside)
		return
	}
	r.warnf("the best checkpoint %s, which %s names, does not exist; the run goes on without it", path, hf.StateFile)
	r.state.Set("best_model_checkpoint", nil)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// loadBest puts the best checkpoint's weights into the model at the end of a
// run, as load_best_model_at_end asks; nothing is written after it. A checkpoint
// that cannot be read any more is no reason to fail a run that is done.
func (r *run) loadBest(ctx context.Context) error {
	path := r.state.BestModelCheckpoint()
	if path == "" || !r.args.LoadBestModelAtEnd {
		return nil
	}
	last := slices.Clone(r.model.FlatValues())
	err := agree(ctx, r.group, r.loadBestWeights(path))
	if failed := (*RankError)(nil); errors.As(err, &failed) {
		copy(r.model.FlatValues(), last)
		if r.group.Rank() == 0 {
			r.warnf("the best model is not loaded, the last one stays: %v", failed)
		}
		return nil
	}
	if err != nil {
		return err
	}
	best, _ := r.state.BestMetric()
	r.sayf("best model: %s, %s %.6g; its weights are loaded", path, evalLoss, best)
	return nil
}

// loadBestWeights reads a checkpoint's weights into the model.
func (r *run) loadBestWeights(dir string) (err error) {
	opened, err := hf.Open(dir, hf.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	weights, err := opened.Weights()
	if err != nil {
		return err
	}
	return r.model.Load(weights)
}
