package trainer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"rejoin/ckpt/hf"
)

// checkpoint finds the checkpoint and takes its arguments.
func (r *resolver) checkpoint() error {
	if r.request.Checkpoint == "" {
		return nil
	}
	if info, err := os.Stat(r.request.Checkpoint); err == nil && !info.IsDir() {
		return r.dictCheckpoint(r.request.Checkpoint)
	}
	dir, err := r.chooseCheckpoint(r.request.Checkpoint)
	if err != nil {
		return err
	}
	r.job.Checkpoint = dir
	if r.opened, err = hf.Open(dir, hf.Options{}); err != nil {
		return err
	}
	if r.manifest, err = r.opened.Manifest(); err != nil {
		return err
	}
	if err := r.checkpointArguments(); err != nil {
		return err
	}
	if err := r.missingStates(); err != nil {
		return err
	}
	r.describeSchedule()
	return nil
}

// chooseCheckpoint takes dir itself, or its newest complete checkpoint.
func (r *resolver) chooseCheckpoint(dir string) (string, error) {
	_, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("checkpoint %s does not exist", dir)
	case err != nil:
		return "", err
	}
	if _, named := hf.StepOfName(filepath.Base(dir)); named || hf.IsCheckpoint(dir) {
		return filepath.Clean(dir), nil
	}
	newest, skipped, err := hf.Latest(dir, intact)
	for _, s := range skipped {
		r.warn("%v", s)
	}
	if err != nil {
		return "", err
	}
	r.say("resuming from %s, the newest complete checkpoint of %s", newest, dir)
	return newest, nil
}

// intact compares a checkpoint's files with its manifest, byte by byte.
func intact(dir string) error {
	c, err := hf.Open(dir, hf.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	if manifest, err := c.Manifest(); err != nil || manifest == nil {
		return err
	}
	return c.Verify(context.Background())
}

// checkpointArguments takes the arguments of the run: Rejoin's manifest where
// there is one, else training_args.bin with the intervals of trainer_state.json,
// as the Trainer does on resume.
func (r *resolver) checkpointArguments() error {
	state, err := r.opened.State()
	if err != nil {
		return err
	}
	args := &r.job.Arguments
	var previous Division
	if r.manifest != nil {
		if err := args.SetKnown(r.manifest.Arguments); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(r.job.Checkpoint, hf.ManifestFile), err)
		}
		previous.WorldSize = r.manifest.WorldSize
		r.job.DataDigest = r.manifest.DataDigest
		r.job.ParamGroups, _ = r.manifest.Extra[paramGroupsKey].(string)
	} else {
		if previous.WorldSize, err = r.trainerArguments(state); err != nil {
			return err
		}
	}
	if n := state.TrainBatchSize(); n > 0 {
		args.PerDeviceTrainBatchSize = n
	}
	previous = divisionOf(args, previous.WorldSize)
	r.job.Previous = previous
	r.before = *args
	r.expectedSteps = state.MaxSteps()
	return nil
}

// trainerArguments reads training_args.bin and returns the world size it trained with.
func (r *resolver) trainerArguments(state *hf.TrainerState) (worldSize int, err error) {
	values, found, err := r.opened.TrainingArgs()
	if err != nil {
		return 0, err
	}
	path := filepath.Join(r.job.Checkpoint, hf.TrainingArgsFile)
	args := &r.job.Arguments
	if !found {
		r.warn("%s is missing: batch size and number of updates are those of %s, all else the Trainer's default where no flag says otherwise", path, hf.StateFile)
		if n := state.TrainBatchSize(); n > 0 {
			args.PerDeviceTrainBatchSize = n
		}
		args.MaxSteps = state.MaxSteps()
	} else if err := args.SetKnown(values); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	for _, note := range roundingNotes(values) {
		r.warn("%s: %s", path, note)
	}
	if err := args.takeEarlyStopping(state); err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(r.job.Checkpoint, hf.StateFile), err)
	}
	for name, steps := range map[string]float64{"logging_steps": state.LoggingSteps(), "save_steps": state.SaveSteps(), "eval_steps": state.EvalSteps()} {
		if steps > 0 && (name != "eval_steps" || args.EvalSteps != nil) {
			if err := args.Set(name, steps); err != nil {
				return 0, err
			}
		}
	}
	return r.opened.WorldSize()
}
