package trainer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"rejoin/ckpt/hf"
	"rejoin/internal/fault"
)

// Save modes of a [Job].
const (
	SaveAsync = "async" // in the background, while training goes on
	SaveSync  = "sync"  // training waits until the checkpoint is durable
)

// saver writes rank 0's checkpoints, one at a time, on a goroutine that it owns:
// from start to settle or finish. On other ranks it has nothing to do.
type saver struct {
	dir       string
	overwrite bool
	limit     int // save_total_limit; 0: none

	inFlight chan saved // capacity 1; nil: no save is under way or unheard
	ended    *saved     // received from inFlight, not settled yet
}

// saved is how a save ended.
type saved struct {
	path    string
	outcome hf.Outcome
	err     error
	dict    string // path of the training script's dict; "": none
	rotated hf.Rotated
}

// start begins to write contents, and a training script's dict where one is
// wanted; both must not change any more. The save before must be settled.
func (s *saver) start(ctx context.Context, contents hf.Contents, dict *scriptDict) {
	done := make(chan saved, 1)
	s.inFlight = done
	go func() { done <- s.write(ctx, contents, dict) }()
}

// write publishes a checkpoint, or leaves things as they were, and then rotates.
func (s *saver) write(ctx context.Context, contents hf.Contents, dict *scriptDict) saved {
	result := saved{path: filepath.Join(s.dir, hf.DirName(contents.Step))}
	result.outcome, result.err = s.publish(ctx, contents)
	if result.err == nil && dict != nil {
		if result.err = dict.write(); result.err == nil {
			result.dict = dict.path
		}
	}
	if result.err != nil || s.limit <= 0 {
		return result
	}
	best, _ := contents.State.Get("best_model_checkpoint").(string)
	result.rotated = hf.Rotate(s.dir, hf.Rotation{Limit: s.limit, Written: contents.Step, Best: best})
	return result
}

func (s *saver) publish(ctx context.Context, contents hf.Contents) (outcome hf.Outcome, err error) {
	w, err := hf.Begin(s.dir, contents.Step)
	if err != nil {
		return hf.Unpublished, err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	if err := w.Write(ctx, contents); err != nil {
		return hf.Unpublished, err
	}
	outcome, err = w.Commit(ctx, s.overwrite)
	there := (*hf.ExistsError)(nil)
	switch {
	case !errors.As(err, &there):
		return outcome, err
	case !there.Foreign && intact(there.Path) != nil:
		return w.Commit(ctx, true) // what is there is damaged: nobody can resume from it
	}
	return outcome, fmt.Errorf("%w (--overwrite, --output-dir)", err)
}

// poll returns a save that has ended and was not reported before; it does not wait.
func (s *saver) poll() *saved {
	if s.inFlight == nil {
		return nil
	}
	select {
	case result := <-s.inFlight:
		return s.end(result)
	default:
		return nil
	}
}

// await is poll, but waits for the end of a save under way: at the latest until
// the context of its start ends.
func (s *saver) await() *saved {
	if s.inFlight == nil {
		return nil
	}
	return s.end(<-s.inFlight)
}

// end notes how a save ended, and collects its snapshot, so that there is never
// more than one: by itself the collector lets the heap double first.
func (s *saver) end(result saved) *saved {
	s.inFlight, s.ended = nil, &result
	runtime.GC()
	return s.ended
}

// failed reports that a save has failed and the other ranks do not know.
func (s *saver) failed() bool { return s.ended != nil && s.ended.err != nil }

// settle returns the last save's error, and forgets it.
func (s *saver) settle() error {
	if s.ended == nil {
		return nil
	}
	err := s.ended.err
	s.ended = nil
	return err
}

// startSave snapshots the run and begins to save it. It returns when training
// may go on.
func (r *run) startSave(ctx context.Context, last bool) error {
	if err := r.settleSave(ctx); err != nil {
		return err
	}
	if err := fault.At("gather"); err != nil {
		return err
	}
	r.noteBestCheckpoint()
	randomStates, err := r.gatherRandomStates(ctx)
	if err != nil {
		return err
	}
	sums, err := gatherFloat32(ctx, r.group, r.loss.sum)
	if err != nil {
		return err
	}
	if err := fault.At("snapshot"); err != nil {
		return err
	}
	if r.group.Rank() == 0 {
		contents := r.contents(randomStates, pendingLoss{sums, r.loss.lastLogged}, last)
		r.saver.start(ctx, contents, r.scriptDict(&contents, r.lastLoss))
	}
	r.unsettled = true
	r.savedSteps[r.pos.Step], r.lastSaved = true, r.checkpointPath()
	if r.job.SaveMode == SaveSync {
		return r.settleSave(ctx)
	}
	return nil
}

// settleSave waits for the save under way and lets every rank learn how it ended.
// Every rank calls it at the same point.
func (r *run) settleSave(ctx context.Context) error {
	if !r.unsettled {
		return nil
	}
	if err := fault.At("settle"); err != nil {
		return err
	}
	r.reportSave(r.saver.await())
	r.unsettled = false
	return agree(ctx, r.group, r.saver.settle())
}

// finishSave ends a run that failed: a save under way still gets its time, as
// what it writes is whole. Its failure is a warning, beside the run's own error.
func (r *run) finishSave() {
	if result := r.saver.await(); result != nil {
		r.reportSave(result)
	}
	if err := r.saver.settle(); err != nil {
		r.warnf("the last save failed: %v", err)
	}
}

// reportSave prints what became of a save and of older checkpoints. The error
// is not printed: all ranks stop with it.
func (r *run) reportSave(s *saved) {
	if s == nil {
		return
	}
	switch s.outcome {
	case hf.Unpublished:
	case hf.Kept:
		r.sayf("%s: identical to the one already there, which is kept", s.path)
	case hf.Replaced:
		r.sayf("%s: saved, in place of a different one", s.path)
	default:
		r.sayf("%s: saved", s.path)
	}
	if s.dict != "" {
		r.sayf("%s: saved, as a training script's dict", s.dict)
	}
	for _, path := range s.rotated.Removed {
		r.sayf("%s: removed, as save_total_limit is %d", path, r.saver.limit)
	}
	for _, left := range s.rotated.Left {
		if key := left.String(); !r.saidLeft[key] { // once a run, not at each save
			r.saidLeft[key] = true
			r.warnf("save_total_limit: %s", key)
		}
	}
}

// leave notes that the run was asked to stop, and that its state is being saved.
func (r *run) leave() {
	r.stopped = &StoppedError{
		Reason: r.requests.reason(), Step: r.pos.Step, MaxSteps: r.plan.MaxSteps, WorldSize: r.group.Size(),
		Checkpoint: r.checkpointPath(),
	}
}

// checkpointPath is the checkpoint directory of the present step.
func (r *run) checkpointPath() string { return filepath.Join(r.job.OutputDir, hf.DirName(r.pos.Step)) }

// saveMode checks --save-mode.
func saveMode(mode string) (string, error) {
	switch mode {
	case "":
		return SaveAsync, nil
	case SaveAsync, SaveSync:
		return mode, nil
	}
	return "", fmt.Errorf("--save-mode: found %q, expected %s (training goes on meanwhile) or %s (training waits)", mode, SaveAsync, SaveSync)
}
