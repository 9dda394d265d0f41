package trainer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"rejoin/ckpt/hf"
	"rejoin/model"
	"rejoin/tensor"
)

// Request is what a person asked for on the command line.
type Request struct {
	// Checkpoint to resume: a checkpoint-N directory, or a directory of them,
	// which means its newest complete one. "" trains from scratch.
	Checkpoint string
	Init       string   // weights to begin with, when training from scratch
	Data       string   // "": the checkpoint's own
	Model      string   // path of a model.yaml; "": the checkpoint's own
	Config     string   // path of a train.yaml; "": none
	Set        []string // name=value, after Config
	OutputDir  string   // "": the checkpoint's parent, or "out" from scratch
	WorldSize  int

	MapLocation   string // "": "cpu"
	LocationRules string // "": "lenient"

	Trace, Overwrite bool

	EvalData string // evaluation data; "": the checkpoint's own
	Strict   bool   // refuse what would be a warning
	OnNaN    string // stop, skip or go-on; "": as Set or the checkpoint says
}

// Notice is something a person should know before training starts.
type Notice struct {
	Warning bool
	Text    string
}

// Resolve turns a request into the job that every rank gets, and says what it
// decided. It reads the checkpoint's descriptions but no tensors.
func Resolve(r *Request) (*Job, []Notice, error) {
	job := &Job{
		Init: r.Init, WorldSize: r.WorldSize, OutputDir: r.OutputDir, Trace: r.Trace, Overwrite: r.Overwrite, Strict: r.Strict,
		MapLocation: r.MapLocation, LocationRules: r.LocationRules, Arguments: DefaultArguments(),
	}
	res := &resolver{request: r, job: job}
	steps := []func() error{res.location, res.checkpoint, res.flags, res.division, job.Arguments.Validate, res.model, res.data, res.evalData, res.outputDir}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	if err := res.strict(); err != nil {
		return nil, nil, err
	}
	return job, res.notices, nil
}

type resolver struct {
	request  *Request
	job      *Job
	notices  []Notice
	opened   *hf.Checkpoint // nil from scratch
	manifest *hf.Manifest   // nil if the Trainer wrote the checkpoint
	before   Arguments      // the checkpoint's, before flags
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
	if rules := r.job.LocationRules; rules != "lenient" && rules != "torch" {
		return fmt.Errorf("--location-rules: found %q, expected lenient (any tag loads on the CPU) or torch (torch's own rules)", rules)
	}
	return nil
}

// mapLocation is the job's map_location for one rank's optimizer.pt. "device" is
// what transformers ≤5.17 passes: the device accelerate gave the rank, "cpu:0"
// on CPUs, or plain "cpu" when there is one rank only.
func (j *Job) mapLocation() tensor.MapLocation {
	if j.LocationRules != "torch" {
		return tensor.CPU
	}
	location := j.MapLocation
	if location == "device" {
		location = "cpu:0"
		if j.WorldSize == 1 {
			location = "cpu"
		}
	}
	return tensor.TorchLocation(location)
}

// checkpoint finds the checkpoint and takes its arguments.
func (r *resolver) checkpoint() error {
	if r.request.Checkpoint == "" {
		return nil
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
	return r.checkpointArguments()
}

// chooseCheckpoint takes dir itself, or its newest complete checkpoint.
func (r *resolver) chooseCheckpoint(dir string) (string, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("checkpoint %s does not exist", dir)
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s is a file; resume takes a checkpoint-N directory, or a directory of them", dir)
	}
	if hf.IsCheckpoint(dir) {
		return filepath.Clean(dir), nil
	}
	newest, skipped, err := hf.Latest(dir)
	for _, s := range skipped {
		r.warn("%v", s)
	}
	if err != nil {
		return "", err
	}
	r.say("resuming from %s, the newest complete checkpoint of %s", newest, dir)
	return newest, nil
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
	previous := Division{BatchSize: state.TrainBatchSize()}
	if r.manifest != nil {
		if err := args.SetKnown(r.manifest.Arguments); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(r.job.Checkpoint, hf.ManifestFile), err)
		}
		previous.WorldSize = r.manifest.WorldSize
		r.job.DataDigest = r.manifest.DataDigest
	} else {
		if previous.WorldSize, err = r.trainerArguments(state); err != nil {
			return err
		}
	}
	previous.Accumulation = args.GradientAccumulationSteps
	if previous.BatchSize == 0 {
		previous.BatchSize = args.PerDeviceTrainBatchSize
	}
	r.job.Previous = previous
	r.before = *args
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
		r.warn("%s is missing: the Trainer's defaults are used where no flag says otherwise", path)
	} else if err := args.SetKnown(values); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
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
	if path := r.request.Config; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("--config: %w", err)
		}
		if err := args.SetYAML(text); err != nil {
			return fmt.Errorf("--config %s: %w", path, err)
		}
	}
	for _, assignment := range r.request.Set {
		if err := args.SetText(assignment); err != nil {
			return fmt.Errorf("--set %s: %w", assignment, err)
		}
	}
	if r.request.OnNaN != "" {
		args.OnNaN = r.request.OnNaN
	}
	args.complete()
	if !r.job.Resuming() {
		return nil
	}
	for _, change := range r.before.Changes(args) {
		r.say("changed from the checkpoint's run: %s", change)
	}
	if r.before.LearningRate != args.LearningRate {
		r.warn("learning_rate has no effect on a resumed run: the optimizer's saved learning rate is used")
	}
	return nil
}

// division keeps the rows of an update when the number of ranks changes.
func (r *resolver) division() error {
	if !r.job.Resuming() {
		return nil
	}
	args, was := &r.job.Arguments, r.job.Previous
	if was.WorldSize == r.job.WorldSize {
		return nil
	}
	asked := r.before.GradientAccumulationSteps != args.GradientAccumulationSteps ||
		r.before.PerDeviceTrainBatchSize != args.PerDeviceTrainBatchSize
	now := Division{r.job.WorldSize, args.PerDeviceTrainBatchSize, args.GradientAccumulationSteps}
	if !asked {
		var err error
		if now, err = was.Rescale(r.job.WorldSize); err != nil {
			return err
		}
		args.GradientAccumulationSteps = now.Accumulation
	}
	r.warn("world size %d → %d: %v, before %v", was.WorldSize, now.WorldSize, now, was)
	return nil
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
		return fmt.Errorf("%s does not say what model it is of; describe it with --model FILE.yaml", r.job.Checkpoint)
	default:
		return errors.New("there is no model; describe it with --model FILE.yaml")
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
			return fmt.Errorf("%s does not say what data it was trained on; name it with --data FILE.jsonl", r.job.Checkpoint)
		}
		return errors.New("there is no data to train on; name it with --data FILE.jsonl")
	}
	if _, err := os.Stat(path); err != nil {
		next := "check --data"
		if r.request.Data == "" {
			next = "the checkpoint's manifest names this file: if it moved, name it with --data FILE.jsonl"
		}
		return fmt.Errorf("training data: %w; %s", err, next)
	}
	var err error
	r.job.Data, err = filepath.Abs(path)
	return err
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
		return fmt.Errorf("the run evaluates (eval_strategy %s) but there is no data for it; name it with --eval-data FILE.jsonl, or set eval_strategy=no and eval_on_start=false", r.job.Arguments.EvalStrategy)
	case path == "":
		r.job.EvalDataDigest = ""
		return nil
	case !evaluates:
		r.job.EvalDataDigest = ""
		r.warn("--eval-data has no effect: the run does not evaluate; --set eval_strategy=steps or epoch makes it")
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("evaluation data: %w; name it with --eval-data FILE.jsonl", err)
	}
	var err error
	r.job.EvalData, err = filepath.Abs(path)
	return err
}

// outputDir decides where checkpoints go, and refuses before training what
// would come out different under a name that is taken.
func (r *resolver) outputDir() error {
	if r.job.OutputDir == "" {
		r.job.OutputDir = "out"
		if r.job.Resuming() {
			r.job.OutputDir = filepath.Dir(r.job.Checkpoint)
		}
	}
	if info, err := os.Stat(r.job.OutputDir); err == nil && !info.IsDir() {
		return fmt.Errorf("--output-dir %s is a file, expected a directory", r.job.OutputDir)
	}
	return r.laterCheckpoints()
}
