package trainer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// trace records the rows and the loss of every micro-batch that this rank trains on. A nil
// trace records nothing.
type trace struct {
	dir string

	Rank         int     `json:"rank"`
	WorldSize    int     `json:"world_size"`
	FirstStep    int     `json:"first_step"` // updates done before the first micro-batch
	MicroBatches [][]int `json:"micro_batches"`
	// Losses are this rank's, by micro-batch, divided by the accumulation; null
	// where one is not finite or there are no rows.
	Losses []tracedLoss `json:"losses"`
}

// tracedLoss is a loss as JSON can hold it.
type tracedLoss float32

// MarshalJSON writes the loss, or null if it is not finite.
func (l tracedLoss) MarshalJSON() ([]byte, error) {
	if !isFinite(float32(l)) {
		return []byte("null"), nil
	}
	return json.Marshal(float32(l))
}

func (t *trace) add(rows []int, loss float32) {
	if t != nil {
		t.MicroBatches = append(t.MicroBatches, rows)
		t.Losses = append(t.Losses, tracedLoss(loss))
	}
}

// write writes trace-rankR.json into the output directory.
func (t *trace) write() error {
	if t == nil {
		return nil
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(t.dir, 0o777); err != nil {
		return fmt.Errorf("--trace: %w", err)
	}
	path := filepath.Join(t.dir, fmt.Sprintf("trace-rank%d.json", t.Rank))
	if err := os.WriteFile(path, append(text, '\n'), 0o666); err != nil {
		return fmt.Errorf("--trace: %w", err)
	}
	return nil
}
