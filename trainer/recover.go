package trainer

import (
	"os"
	"path/filepath"

	"rejoin/ckpt/hf"
)

// saving takes the save mode, and clears away what interrupted saves left behind
// before a checkpoint is chosen: it may be that one has to be put back.
func (r *resolver) saving() error {
	var err error
	if r.job.SaveMode, err = saveMode(r.request.SaveMode); err != nil {
		return err
	}
	for _, dir := range r.runDirs() {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue // said where it is used
		}
		done, err := hf.Recover(dir)
		for _, line := range done {
			r.say("%s", line)
		}
		if err != nil {
			r.warn("what an interrupted save left in %s cannot be cleared away: %v", dir, err)
		}
	}
	return nil
}

// runDirs are the directories in which the run's checkpoints lie or will lie.
func (r *resolver) runDirs() []string {
	var dirs []string
	if from := r.request.Checkpoint; from != "" {
		from = filepath.Clean(from)
		if _, ok := hf.StepOfName(filepath.Base(from)); ok {
			from = filepath.Dir(from)
		}
		dirs = append(dirs, from)
	}
	if out := r.request.OutputDir; out != "" && (dirs == nil || filepath.Clean(out) != dirs[0]) {
		dirs = append(dirs, out)
	} else if dirs == nil {
		dirs = append(dirs, defaultOutputDir)
	}
	return dirs
}

// restoreBest finds the best checkpoint again, whose path the state keeps. A run
// directory may have been moved since; one that is gone is no longer named.
func (r *run) restoreBest() {
	stored, _ := r.state.Get("best_model_checkpoint").(string)
	if stored == "" {
		return
	}
	found := hf.FindBest(stored, r.job.OutputDir, filepath.Dir(r.job.Checkpoint))
	switch {
	case found == stored:
	case found != "":
		r.state.Set("best_model_checkpoint", found)
	default:
		r.state.Set("best_model_checkpoint", nil)
		if r.group.Rank() == 0 {
			r.warnf("the best checkpoint, %s, is not there any more, nor is one of its name beside the checkpoint: the state no longer names it", stored)
		}
	}
}
