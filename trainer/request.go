package trainer

import (
	"fmt"

	"rejoin/ckpt/hf"
	"rejoin/ckpt/names"
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

	UnevenRanks string // pad, drop or join; "": as Set or the checkpoint says
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
	// saved is what the saved scheduler says of itself, nil without one;
	// hiddenSchedule tells that a script had one and did not save it.
	saved          *savedSchedule
	hiddenSchedule string
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
