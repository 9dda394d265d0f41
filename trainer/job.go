package trainer

import (
	"encoding/json"
	"fmt"

	"rejoin/ckpt/hf"
)

// Job is everything that every rank must know to train: the launcher resolves
// it once from flags and checkpoint, and every rank gets the same bytes.
type Job struct {
	// Checkpoint is the checkpoint-N directory to go on from; "" trains from scratch.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Dict is a training script's own checkpoint, a file, to go on from; "" for none.
	Dict string `json:"dict,omitempty"`
	// Init is a file with the weights to begin with, when training from scratch;
	// "" initialises them from the seed as torch would.
	Init      string    `json:"init,omitempty"`
	Data      string    `json:"data"`
	Model     string    `json:"model"` // the text of model.yaml
	OutputDir string    `json:"output_dir"`
	Arguments Arguments `json:"arguments"`
	WorldSize int       `json:"world_size"`
	// Run is the run's identity: see runKey.
	Run string `json:"run"`
	// ExpectedSteps is how many updates the run has by the checkpoint's own
	// state; 0 if arguments or world size have changed since.
	ExpectedSteps int `json:"expected_steps,omitempty"`
	// Previous is how the checkpoint's run was divided, when resuming.
	Previous Division `json:"previous"`
	// Recount is the progress in this run's updates, where an update's rows have
	// changed; Offset where an epoch was gone on with, now or before.
	Recount *Recount `json:"recount,omitempty"`
	Offset  Offset   `json:"offset"`
	// DataDigest is the data's SHA-256 that the checkpoint was trained on; "" if unknown.
	DataDigest string `json:"data_digest,omitempty"`
	Sampler    string `json:"sampler"` // SeedableRandom, Sequential or Distributed

	// EvalData is the evaluation data, "" for none, and EvalDataDigest its SHA-256
	// in the checkpoint's run; "" if unknown.
	EvalData       string `json:"eval_data,omitempty"`
	EvalDataDigest string `json:"eval_data_digest,omitempty"`

	MapLocation   string `json:"map_location"`   // as tensor.ParseMapLocation reads it
	LocationRules string `json:"location_rules"` // "lenient" or "torch"

	Skip         []string `json:"skip,omitempty"`          // see Request
	AllowMissing bool     `json:"allow_missing,omitempty"` // see Request

	LRFrom         string `json:"lr_from,omitempty"`         // see Request
	FreshOptimizer bool   `json:"fresh_optimizer,omitempty"` // see Request
	FreshScheduler bool   `json:"fresh_scheduler,omitempty"` // see Request
	// ParamGroups is how parameters are grouped: "" as the Trainer does, with and
	// without weight decay, "flat" in one group.
	ParamGroups string `json:"param_groups,omitempty"`

	AlsoDict bool `json:"also_dict,omitempty"` // see Request

	Trace     bool `json:"trace,omitempty"`
	Overwrite bool `json:"overwrite,omitempty"`
	Strict    bool `json:"strict,omitempty"` // what would be a warning of the resume is an error
}

// Resuming tells a resume from a run from scratch.
func (j *Job) Resuming() bool { return j.Checkpoint != "" || j.Dict != "" }

// without are the checkpoint's files that the job does not read.
func (j *Job) without() (names []string) {
	if j.FreshOptimizer {
		names = append(names, hf.OptimizerFile)
	}
	if j.FreshScheduler {
		names = append(names, hf.SchedulerFile)
	}
	return names
}

// Encode gives the job as the bytes that ranks receive.
func (j *Job) Encode() ([]byte, error) { return json.Marshal(j) }

// DecodeJob is the inverse of [Job.Encode].
func DecodeJob(raw []byte) (*Job, error) {
	var j Job
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, fmt.Errorf("the launcher's job description cannot be read (are launch and worker of one version?): %w", err)
	}
	return &j, nil
}

// Division is how an update's rows are divided: over ranks, then micro-batches.
type Division struct {
	WorldSize    int `json:"world_size"`
	BatchSize    int `json:"batch_size"` // rows of one micro-batch on one rank
	Accumulation int `json:"accumulation"`
}

// divisionOf is the division that the arguments make over worldSize ranks. Under
// split_batches their batch size is that of all ranks together.
func divisionOf(args *Arguments, worldSize int) Division {
	d := Division{worldSize, args.PerDeviceTrainBatchSize, args.GradientAccumulationSteps}
	if args.SplitBatches && worldSize > 1 {
		d.BatchSize /= worldSize
	}
	return d
}

// Rows is the number of rows of one update over all ranks: the global batch.
func (d Division) Rows() int { return d.WorldSize * d.BatchSize * d.Accumulation }

func (d Division) String() string {
	ranks := "ranks"
	if d.WorldSize == 1 {
		ranks = "rank"
	}
	return fmt.Sprintf("%d rows per update (%d %s × %d rows × %d accumulated)", d.Rows(), d.WorldSize, ranks, d.BatchSize, d.Accumulation)
}

// Rescale keeps the global batch when the number of ranks changes, by changing
// the accumulation: the same rows are in each update, under the same schedule.
// It cannot where the numbers do not divide.
func (d Division) Rescale(worldSize int) (Division, bool) {
	perMicroBatch := worldSize * d.BatchSize
	if perMicroBatch == 0 || d.Rows()%perMicroBatch != 0 {
		return Division{}, false
	}
	return Division{worldSize, d.BatchSize, d.Rows() / perMicroBatch}, true
}
