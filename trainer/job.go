package trainer

import (
	"encoding/json"
	"fmt"
)

// Job is everything that every rank must know to train: the launcher resolves
// it once from flags and checkpoint, and every rank gets the same bytes.
type Job struct {
	// Checkpoint is the checkpoint-N directory to go on from; "" trains from scratch.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Init is a file with the weights to begin with, when training from scratch;
	// "" initialises them from the seed as torch would.
	Init      string    `json:"init,omitempty"`
	Data      string    `json:"data"`
	Model     string    `json:"model"` // the text of model.yaml
	OutputDir string    `json:"output_dir"`
	Arguments Arguments `json:"arguments"`
	WorldSize int       `json:"world_size"`
	// Previous is how the checkpoint's run was divided, when resuming.
	Previous Division `json:"previous"`
	// DataDigest is the data's SHA-256 that the checkpoint was trained on; "" if unknown.
	DataDigest string `json:"data_digest,omitempty"`

	// EvalData is the evaluation data, "" for none, and EvalDataDigest its SHA-256
	// in the checkpoint's run; "" if unknown.
	EvalData       string `json:"eval_data,omitempty"`
	EvalDataDigest string `json:"eval_data_digest,omitempty"`

	MapLocation   string `json:"map_location"`   // "cpu", "device", or a device tag
	LocationRules string `json:"location_rules"` // "lenient" or "torch"

	Trace     bool `json:"trace,omitempty"`
	Overwrite bool `json:"overwrite,omitempty"`
	Strict    bool `json:"strict,omitempty"` // what would be a warning of the resume is an error
}

// Resuming tells a resume from a run from scratch.
func (j *Job) Resuming() bool { return j.Checkpoint != "" }

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

// Rows is the number of rows of one update over all ranks: the global batch.
func (d Division) Rows() int { return d.WorldSize * d.BatchSize * d.Accumulation }

func (d Division) String() string {
	return fmt.Sprintf("%d rows per update (%d ranks × %d rows × %d accumulated)", d.Rows(), d.WorldSize, d.BatchSize, d.Accumulation)
}

// Rescale keeps the global batch when the number of ranks changes, by changing
// the accumulation: the same rows are in each update, under the same schedule.
// It fails where the numbers do not divide.
func (d Division) Rescale(worldSize int) (Division, error) {
	perMicroBatch := worldSize * d.BatchSize
	if d.Rows()%perMicroBatch != 0 {
		return Division{}, &DivisionError{Was: d, WorldSize: worldSize}
	}
	return Division{worldSize, d.BatchSize, d.Rows() / perMicroBatch}, nil
}

// DivisionError reports a world size over which an update's rows do not divide.
type DivisionError struct {
	Was       Division
	WorldSize int
}

func (e *DivisionError) Error() string {
	return fmt.Sprintf("the checkpoint was trained with %v; %d ranks × %d rows do not divide that. "+
		"Resume with a number of ranks that divides it, or keep %d rows per update with --set per_device_train_batch_size=… and --set gradient_accumulation_steps=…",
		e.Was, e.WorldSize, e.Was.BatchSize, e.Was.Rows())
}
