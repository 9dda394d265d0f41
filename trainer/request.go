package trainer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"rejoin/ckpt/hf"
	"rejoin/ckpt/names"
	"rejoin/model"
	"rejoin/tensor"
)

// Request is what a person asked for on the command line.
type Request struct {
	// Checkpoint to resume: a checkpoint-N directory, a directory of them, which
	// means its newest complete one, or a file with a training script's own dict.
	// "" trains from scratch.
	Checkpoint string
	Init       string   // weights to begin with, when training from scratch
	Data       string   // "": the checkpoint's own
	Model      string   // path of a model.yaml; "": the checkpoint's own
	Config     string   // path of a train.yaml; "": none
	Set        []string // name=value, after Config
	Sampler    string   // "": the checkpoint's own, or SeedableRandom
	OutputDir  string   // "": the checkpoint's parent, or "out" from scratch
	WorldSize  int

	MapLocation   string // "": "cpu"
	LocationRules string // "": "lenient"

	// Skip are patterns of weight names to leave out; AllowMissing accepts
	// parameters that the weights lack: see package ckpt/names.
	Skip         []string
	AllowMissing bool

	// LRFrom says whose learning rates a resumed run has: "" or "checkpoint" for
	// the saved ones, "args" for the arguments' under the schedule.
	LRFrom string
	// FreshOptimizer and FreshScheduler begin without the checkpoint's optimizer.pt
	// (with zero moments) and scheduler.pt (at the arguments' schedule).
	FreshOptimizer, FreshScheduler bool

	// AlsoDict writes, beside each checkpoint at an epoch's end, a training
	// script's dict: of the kind that was resumed from.
	AlsoDict bool

	// OnWorldChange says what another number of ranks, or of rows in an update, does
	// to a resume: "" or "samples" keeps progress in samples, "refuse" refuses it.
	OnWorldChange string

	Trace, Overwrite bool
	SaveMode         string // SaveAsync or SaveSync; "": SaveAsync

	EvalData string // evaluation data; "": the checkpoint's own
	Strict   bool   // refuse what would be a warning
	OnNaN    string // stop, skip or go-on; "": as Set or the checkpoint says
}

// RequestError says that the request itself, the command line, is wrong or lacks
// something.
type RequestError struct{ Err error }

func (e *RequestError) Error() string { return e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }

func requestError(format string, args ...any) error {
	return &RequestError{fmt.Errorf(format, args...)}
}

// defaultOutputDir is where a run from scratch writes when nothing is said.
const defaultOutputDir = "out"

// Notice is something a person should know before training starts.
type Notice struct {
	Warning bool
	Text    string
}

// Resolve turns a request into the job that every rank gets, and says what it
// decided, also when it fails. It reads the checkpoint's descriptions but no
// tensors, and clears away what interrupted saves left in the run's directories.
func Resolve(r *Request) (*Job, []Notice, error) {
	job := &Job{
		Init: r.Init, WorldSize: r.WorldSize, OutputDir: r.OutputDir, Trace: r.Trace, Overwrite: r.Overwrite, Strict: r.Strict,
		MapLocation: r.MapLocation, LocationRules: r.LocationRules, Skip: r.Skip, AllowMissing: r.AllowMissing, LRFrom: r.LRFrom, AlsoDict: r.AlsoDict, Arguments: DefaultArguments(),
	}
	res := &resolver{request: r, job: job, given: map[string]bool{}}
	steps := []func() error{res.location, res.saving, res.checkpoint, res.flags, res.sampler, res.dictLacks, res.model, res.data, res.evalData, res.division, res.outputDir}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, res.notices, err
		}
	}
	if err := res.strict(); err != nil {
		return nil, res.notices, err
	}
	return job, res.notices, nil
}

type resolver struct {
	request  *Request
	job      *Job
	notices  []Notice
	opened   *hf.Checkpoint  // nil from scratch
	manifest *hf.Manifest    // nil if the Trainer wrote the checkpoint
	before   Arguments       // the checkpoint's, before flags
	given    map[string]bool // the training arguments that the person gives
	// expectedSteps are the run's updates as the checkpoint's state counts them.
	expectedSteps int
	// eitherAdam: the dict to resume does not tell Adam's state from AdamW's.
	eitherAdam bool
}

func (r *resolver) say(format string, args ...any) {
	r.notices = append(r.notices, Notice{Text: fmt.Sprintf(format, args...)})
}

func (r *resolver) warn(format string, args ...any) {
	r.notices = append(r.notices, Notice{Warning: true, Text: fmt.Sprintf(format, args...)})
}

// location checks how tensors are to be placed.
func (r *resolver) location() error {
	if r.job.MapLocation == "" {
		r.job.MapLocation = "cpu"
	}
	if r.job.LocationRules == "" {
		r.job.LocationRules = "lenient"
	}
	if _, err := tensor.ParseLocationRules(r.job.LocationRules); err != nil {
		return requestError("--location-rules: %w", err)
	}
	if _, err := r.job.mapLocation(); err != nil {
		return requestError("--map-location: %w", err)
	}
	if on := r.request.OnWorldChange; on != "" && on != "samples" && on != "refuse" {
		return requestError("--on-world-change: found %q, expected samples (progress is kept in samples) or refuse", on)
	}
	switch r.job.LRFrom {
	case "", "args", "checkpoint":
	default:
		return requestError("--lr-from: found %q, expected checkpoint (the saved learning rates) or args (the arguments', scaled by the schedule)", r.job.LRFrom)
	}
	if err := names.CheckPatterns(r.job.Skip); err != nil {
		return requestError("--skip: %w", err)
	}
	return nil
}

// mapLocation is the job's map_location for one rank's optimizer.pt. "device" is
// what transformers ≤5.17 passes: the device accelerate gave the rank, "cpu:0"
// on CPUs, or plain "cpu" when there is one rank only.
func (j *Job) mapLocation() (tensor.MapLocation, error) {
	rules, err := tensor.ParseLocationRules(j.LocationRules)
	if err != nil {
		return nil, err
	}
	device := "cpu:0"
	if j.WorldSize == 1 {
		device = "cpu"
	}
	return tensor.ParseMapLocation(j.MapLocation, rules, device)
}

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
	if err := r.missingStates(); err != nil {
		return err
	}
	return r.checkpointArguments()
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

// flags applies what the person asked for, which wins over the checkpoint.
func (r *resolver) flags() error {
	args := &r.job.Arguments
	var named []string
	if path := r.request.Config; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("--config: %w", err)
		}
		if err := args.SetYAML(text); err != nil {
			return requestError("--config %s: %w", path, err)
		}
		named = NamesInYAML(text)
	}
	for _, assignment := range r.request.Set {
		if err := args.SetText(assignment); err != nil {
			return requestError("--set %s: %w", assignment, err)
		}
		name, _, _ := strings.Cut(assignment, "=")
		named = append(named, strings.ReplaceAll(name, "-", "_"))
	}
	for _, name := range named {
		r.given[name] = true
	}
	if unused := slices.DeleteFunc(named, func(name string) bool { return !inert(name) }); len(unused) > 0 {
		r.say("of the Trainer's arguments these have no effect here: %s", strings.Join(unused, ", "))
	}
	if r.request.OnNaN != "" {
		args.OnNaN = r.request.OnNaN
	}
	args.complete()
	if err := args.Validate(); err != nil {
		return &RequestError{err}
	}
	r.sayChanges()
	return nil
}

// sayChanges says what the person changes in the run to resume.
func (r *resolver) sayChanges() {
	args := &r.job.Arguments
	if r.job.Checkpoint == "" { // a training script's dict does not hold arguments
		return
	}
	r.keepOptimizer()
	changes := r.before.Changes(args)
	for _, change := range changes {
		r.say("changed from the checkpoint's run: %s", change)
	}
	if len(changes) == 0 && r.job.Previous.WorldSize == r.job.WorldSize {
		r.job.ExpectedSteps = r.expectedSteps
	}
	if r.before.LearningRate != args.LearningRate && r.job.LRFrom != "args" {
		r.warn("learning_rate has no effect on a resumed run: the optimizer's saved learning rate is used; --lr-from args uses the new one")
	}
}

// keepOptimizer sets back what a resume takes from optimizer.pt, and says so.
func (r *resolver) keepOptimizer() {
	args := &r.job.Arguments
	if r.job.FreshOptimizer {
		return
	}
	for _, name := range []string{"weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon"} {
		i := argumentFields[name]
		was, is := reflect.ValueOf(&r.before).Elem().Field(i), reflect.ValueOf(args).Elem().Field(i)
		if was.Float() != is.Float() {
			r.warn("%s has no effect on a resumed run: optimizer.pt holds it (%v); --fresh-optimizer begins anew with %v", name, was.Float(), is.Float())
			is.Set(was)
		}
	}
}

// samplerWas is the sampler of the checkpoint's run: the Trainer's unless its
// manifest names another.
func (r *resolver) samplerWas() string {
	if r.manifest != nil && r.manifest.Sampler != "" {
		return r.manifest.Sampler
	}
	return SeedableRandom
}

// sampler decides the order in which rows are drawn.
func (r *resolver) sampler() error {
	was := r.samplerWas()
	r.job.Sampler = was
	if r.request.Sampler != "" {
		r.job.Sampler = r.request.Sampler
	}
	if r.job.Resuming() && r.job.Sampler != was {
		r.warn("sampler %s → %s: rows may be seen twice or not at all in the epoch that is resumed", was, r.job.Sampler)
	}
	if err := checkSampler(r.job.Sampler, &r.job.Arguments); err != nil {
		return &RequestError{err}
	}
	return nil
}

// division decides how an update's rows are divided over the ranks: as in the
// checkpoint's run, or else keeping the rows of an update by changing the
// accumulation, or else by counting progress anew in samples.
func (r *resolver) division() error {
	if r.job.Checkpoint == "" { // a training script's dict does not say its division
		return nil
	}
	offset, err := r.savedOffset()
	if err != nil {
		return err
	}
	args, was := &r.job.Arguments, r.job.Previous
	now := divisionOf(args, r.job.WorldSize)
	if was.WorldSize == 0 {
		r.warn("%s does not tell how many ranks it was trained with; %d are assumed", r.job.Checkpoint, now.WorldSize)
		was.WorldSize = now.WorldSize
		r.job.Previous = was
	}
	if was == now {
		r.job.Offset = offset
		return nil
	}
	if r.request.OnWorldChange == "refuse" {
		return requestError("--on-world-change refuse: the checkpoint was trained with %v, this run has %v", was, now)
	}
	if now.Rows() != was.Rows() && r.before.GradientAccumulationSteps == args.GradientAccumulationSteps &&
		r.before.PerDeviceTrainBatchSize == args.PerDeviceTrainBatchSize {
		if kept, ok := was.Rescale(now.WorldSize); ok {
			now, args.GradientAccumulationSteps = kept, kept.Accumulation
		}
	}
	return r.divideAnew(was, now, offset)
}

// savedOffset is the offset that the checkpoint's epoch was gone on with.
func (r *resolver) savedOffset() (Offset, error) {
	if r.manifest == nil {
		return Offset{}, nil
	}
	offset, err := decodeOffset(r.manifest)
	if err != nil {
		return Offset{}, fmt.Errorf("%s: %w", filepath.Join(r.job.Checkpoint, hf.ManifestFile), err)
	}
	return offset, nil
}

// model finds the model's description.
func (r *resolver) model() error {
	path := r.request.Model
	switch {
	case path != "":
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("--model: %w", err)
		}
		r.job.Model = string(text)
	case r.manifest != nil && r.manifest.ModelYAML != "":
		r.job.Model, path = r.manifest.ModelYAML, filepath.Join(r.job.Checkpoint, hf.ManifestFile)
	case r.opened != nil && r.opened.Has(hf.ConfigFile):
		return fmt.Errorf("%s describes an architecture that Rejoin does not have; describe the model with --model FILE.yaml", filepath.Join(r.job.Checkpoint, hf.ConfigFile))
	case r.opened != nil:
		return requestError("%s does not say what model it is of; describe it with --model FILE.yaml", r.job.Checkpoint)
	default:
		return requestError("there is no model; describe it with --model FILE.yaml")
	}
	if _, err := model.ParseSpec([]byte(r.job.Model)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// data finds the training data. Its path is kept absolute, so that the manifest
// leads back to it from any directory.
func (r *resolver) data() error {
	path := r.request.Data
	if path == "" && r.manifest != nil {
		path = r.manifest.DataPath
	}
	if path == "" {
		if r.job.Resuming() {
			return requestError("%s does not say what data it was trained on; name it with --data FILE", r.job.Checkpoint)
		}
		return requestError("there is no data to train on; name it with --data FILE")
	}
	if _, err := os.Stat(path); err != nil {
		next := "check --data"
		if r.request.Data == "" {
			next = "the checkpoint's manifest names this file: if it moved, name it with --data FILE"
		}
		return fmt.Errorf("training data: %w; %s", err, next)
	}
	var err error
	r.job.Data, err = filepath.Abs(path)
	return err
}

// outputDir decides where checkpoints go, and refuses before training what
// could not be written, or would come out different under a name that is taken.
func (r *resolver) outputDir() error {
	if r.job.OutputDir == "" {
		r.job.OutputDir = defaultOutputDir
		if r.job.Resuming() {
			r.job.OutputDir = parent(r.job.Checkpoint + r.job.Dict) // one of them is ""
		}
	}
	if err := checkWritable(r.job.OutputDir); err != nil {
		return err
	}
	if err := r.identity(); err != nil {
		return err
	}
	return r.laterCheckpoints()
}

// parent is the directory that holds dir, also when dir is given as "." or "..".
func parent(dir string) string {
	if base := filepath.Base(dir); base == "." || base == ".." {
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
	}
	return filepath.Dir(dir)
}
