package harness

import (
	"encoding/json"
	"path/filepath"
	"time"

	"rejoin/ckpt/hf"
	"rejoin/pyobj"
)

// Outcome is how a scenario went.
type Outcome string

// The outcomes of a scenario.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped" // it cannot run here; Reason says why
)

// Result is how a scenario went, and what was seen.
type Result struct {
	Name     string   `json:"name"`
	About    string   `json:"about"`
	Outcome  Outcome  `json:"outcome"`
	Reason   string   `json:"reason,omitempty"`   // of a skip
	Failures []string `json:"failures,omitempty"` // each a sentence
	// Took is in nanoseconds in JSON, as all times here.
	Took time.Duration `json:"took_ns"`
	Jobs []JobResult   `json:"jobs,omitempty"`
	Dir  string        `json:"dir,omitempty"` // where its files are, if they were kept
	// Rerun is the command that runs this scenario alone and keeps its files.
	Rerun string `json:"rerun"`
}

// JobResult is how a job went.
type JobResult struct {
	Name string `json:"name"`
	// Failures are the scenario's that concern this job.
	Failures []string      `json:"failures,omitempty"`
	Command  []string      `json:"command"`
	Code     int           `json:"code"`
	Took     time.Duration `json:"took_ns"`
	Ranks    []Rank        `json:"ranks,omitempty"`
	Marks    []Mark        `json:"marks,omitempty"`
	Loss     []LossPoint   `json:"loss,omitempty"`
	// Tail are the last lines of the output, those of the first rank that failed
	// if one did.
	Tail []string `json:"tail,omitempty"`
}

// Mark is a moment on a job's time line.
type Mark struct {
	At   time.Duration `json:"at_ns"` // since the job began
	Rank int           `json:"rank"`  // -1: the launcher
	Text string        `json:"text"`
}

// LossPoint is a logged loss.
type LossPoint struct {
	Step float64 `json:"step"`
	Loss float64 `json:"loss"` // null in JSON, which has no NaN, where it is not finite
}

// MarshalJSON writes the point.
func (p LossPoint) MarshalJSON() ([]byte, error) {
	var loss any = p.Loss
	if !finite(p) {
		loss = nil
	}
	return json.Marshal(map[string]any{"step": p.Step, "loss": loss})
}

const (
	tailLines = 15
	maxMarks  = 40
)

// result turns a job that has ended into what is reported of it.
func (r *jobRun) result(launch string) JobResult {
	out := JobResult{
		Name: r.job.Name, Command: append([]string{launch}, r.args...), Code: r.code, Took: r.took, Ranks: r.ranks, Loss: r.losses(),
	}
	for _, d := range r.done {
		rank := -1
		if d.Rank != nil {
			rank = *d.Rank
		}
		out.Marks = append(out.Marks, Mark{d.at, rank, d.String()})
	}
	seen := map[int]bool{}
	for _, l := range r.lines { // each rank's first line shows when it began to speak
		if !seen[l.Rank] && len(out.Marks) < maxMarks {
			seen[l.Rank] = true
			out.Marks = append(out.Marks, Mark(l))
		}
	}
	out.Tail = r.tail()
	return out
}

// tail are the last lines of the first rank that failed, or of the whole job.
func (r *jobRun) tail() []string {
	first := -1
	for i, rank := range r.ranks {
		if rank.Code > 0 && (first < 0 || rank.End < r.ranks[first].End) {
			first = i
		}
	}
	var lines []string
	for _, l := range r.lines {
		if first < 0 || l.Rank == r.ranks[first].Rank || l.Rank < 0 {
			lines = append(lines, l.Text)
		}
	}
	return lines[max(0, len(lines)-tailLines):]
}

// losses reads the log of the job's newest checkpoint.
func (r *jobRun) losses() []LossPoint {
	found, err := hf.List(r.output())
	if err != nil || len(found) == 0 {
		return nil
	}
	return losses(found[len(found)-1].Path)
}

// losses are the logged losses of a checkpoint; none if it cannot be read.
func losses(dir string) []LossPoint {
	c, err := hf.Open(filepath.Clean(dir), hf.Options{})
	if err != nil {
		return nil
	}
	defer c.Close()
	state, err := c.State()
	if err != nil {
		return nil
	}
	var out []LossPoint
	for _, entry := range state.LogHistory() {
		step, err1 := pyobj.AsFloat(entry["step"])
		loss, err2 := pyobj.AsFloat(entry["loss"])
		if err1 == nil && err2 == nil {
			out = append(out, LossPoint{step, loss})
		}
	}
	return out
}

// Summary counts outcomes.
type Summary struct {
	Passed, Failed, Skipped int
}

// Summarise counts the outcomes of results.
func Summarise(results []*Result) Summary {
	var s Summary
	for _, r := range results {
		switch r.Outcome {
		case Passed:
			s.Passed++
		case Failed:
			s.Failed++
		default:
			s.Skipped++
		}
	}
	return s
}
