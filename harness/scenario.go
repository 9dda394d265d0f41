package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// DefaultTimeout bounds a scenario that names no time of its own.
const DefaultTimeout = time.Minute

// Scenario is what happens, and what must come of it. All paths are relative to
// the scenario's own directory, which the fixtures are copied into.
type Scenario struct {
	Name  string `yaml:"name"`
	About string `yaml:"about"`
	// Needs are what a machine must have, or the scenario is skipped: torch,
	// transformers, or a version of them as in "transformers<=5.17.0".
	Needs    []string `yaml:"needs"`
	Fixtures []string `yaml:"fixtures"`
	// Alone keeps other scenarios from running at the same time.
	Alone   bool     `yaml:"alone"`
	Timeout Duration `yaml:"timeout"`
	Jobs    []Job    `yaml:"jobs"`

	file string // that it was loaded from; "" if shipped
}

// Job is one run of N workers. Without a Command it is Rejoin that trains: from
// Checkpoint, or from scratch where there is none.
type Job struct {
	Name    string   `yaml:"name"`
	Workers int      `yaml:"workers"`
	Before  []Damage `yaml:"before"` // done to files before the job starts, in order

	Checkpoint    string   `yaml:"checkpoint"`
	Output        string   `yaml:"output"` // default: the job's name
	MapLocation   string   `yaml:"map_location"`
	LocationRules string   `yaml:"location_rules"`
	Data          string   `yaml:"data"`
	Model         string   `yaml:"model"`
	Config        string   `yaml:"config"`
	Args          []string `yaml:"args"`

	// Command is any program with its arguments. {rank}, {local_rank} and
	// {world_size} are the worker's; {checkpoint}, {output}, {python} and
	// {scripts} are the harness'.
	Command []string `yaml:"command"`

	During []Interruption `yaml:"during"`
	Expect Expectation    `yaml:"expect"`
}

// Damage is one change to a file or directory. Exactly one of its verbs is set.
type Damage struct {
	Delete string `yaml:"delete"`
	Rename string `yaml:"rename"`
	Copy   string `yaml:"copy"`
	To     string `yaml:"to"` // for rename and copy

	Truncate string `yaml:"truncate"`
	Keep     string `yaml:"keep"` // for truncate: "50%", or a number of bytes

	Flip string `yaml:"flip"` // one bit of the middle byte, or of the byte At
	At   *int64 `yaml:"at"`

	Retag string   `yaml:"retag"` // storages take the tags in turn
	Tags  []string `yaml:"tags"`

	Legacy string `yaml:"legacy"` // rewritten in the format of before torch 1.6

	Write string `yaml:"write"` // a new file, with Text in it
	Text  string `yaml:"text"`
}

// Interruption is something done to a running job, once a line with When in it
// has been printed.
type Interruption struct {
	When string `yaml:"when"`
	Do   string `yaml:"do"`   // kill, stop or interrupt
	Rank *int   `yaml:"rank"` // nil: the launcher
	// For is how long a stopped worker stands still.
	For Duration `yaml:"for"`
}

// Expectation is what must come of a job.
type Expectation struct {
	Exit int `yaml:"exit"`
	// Ranks are exit codes by rank, 128+n for signal n.
	Ranks map[int]int `yaml:"ranks"`
	// Says are texts that the job's output has; RankSays, those of one rank's
	// lines; Once, those that are in one line only; Silent, those in no line.
	Says     []string         `yaml:"says"`
	RankSays map[int][]string `yaml:"rank_says"`
	Once     []string         `yaml:"once"`
	Silent   []string         `yaml:"silent"`
	// Checkpoints are the steps of all checkpoints that are in the output
	// directory afterwards; nil: not looked at.
	Checkpoints []int `yaml:"checkpoints"`
	// Rows are the row numbers of each micro-batch by rank.
	Rows  map[int][][]int `yaml:"rows"`
	Equal []Equality      `yaml:"equal"`
}

// Equality is a run that the job's must equal.
type Equality struct {
	To          string `yaml:"to"`          // a run's directory, or one file to compare File with
	File        string `yaml:"file"`        // in the output directory
	Checkpoints []int  `yaml:"checkpoints"` // nil: all that both have, at least one
	// Tolerance is how far numbers may be apart, of the tensor's largest value,
	// or of a logged number itself. 0: bit for bit.
	Tolerance float64 `yaml:"tolerance"`
	// Parts are what to compare; nil: all of them and, with a tolerance of 0,
	// every file byte for byte.
	Parts []Part `yaml:"parts"`
	// Rows compares the rows of the traces, too.
	Rows *RowEquality `yaml:"rows"`
}

// RowEquality compares what was trained on with the traces of another run.
type RowEquality struct {
	// Skip is how many micro-batches of each rank the other run had done before
	// this one began or, with PerUpdate, how many updates.
	Skip int `yaml:"skip"`
	// PerUpdate compares the rows of each update, so many, over all ranks and in
	// no order: for runs of other world sizes. 0: each rank's micro-batches.
	PerUpdate int `yaml:"per_update"`
}

// Part is a part of a checkpoint.
type Part string

// The parts of a checkpoint.
const (
	Weights   Part = "weights"
	Optimizer Part = "optimizer"
	Scheduler Part = "scheduler"
	Random    Part = "random"
	Log       Part = "log"
	Position  Part = "position"
)

var allParts = []Part{Position, Scheduler, Optimizer, Weights, Random, Log}

// Duration is a time.Duration written as "1.5s".
type Duration time.Duration

// UnmarshalYAML reads a duration.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error {
	v, err := time.ParseDuration(node.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("line %d: found %q, expected a time such as 30s", node.Line, node.Value)
	}
	*d = Duration(v)
	return nil
}

// ScenarioError says what is wrong with a scenario file.
type ScenarioError struct {
	File    string
	Problem string
}

func (e *ScenarioError) Error() string { return fmt.Sprintf("scenario %s: %s", e.File, e.Problem) }

// Parse reads a scenario; file is its name, for errors.
func Parse(text []byte, file string) (*Scenario, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var s Scenario
	if err := dec.Decode(&s); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		return nil, &ScenarioError{file, strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if err := dec.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, &ScenarioError{file, "expected one document; put each scenario into a file of its own"}
	}
	if problem := s.complete(); problem != "" {
		return nil, &ScenarioError{file, problem}
	}
	return &s, nil
}

var nameRule = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// complete fills in defaults and says what is wrong with the scenario, if anything.
func (s *Scenario) complete() string {
	switch {
	case !nameRule.MatchString(s.Name):
		return fmt.Sprintf("name: found %q, expected small letters, digits and dashes", s.Name)
	case s.About == "":
		return "about is missing: say in a sentence what is shown"
	case len(s.Jobs) == 0:
		return "jobs is missing: there is nothing to run"
	}
	if s.Timeout == 0 {
		s.Timeout = Duration(DefaultTimeout)
	}
	for _, need := range s.Needs {
		if _, err := parseNeed(need); err != nil {
			return err.Error()
		}
	}
	seen := map[string]bool{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if problem := j.complete(); problem != "" {
			return fmt.Sprintf("job %q: %s", j.Name, problem)
		}
		if seen[j.Name] {
			return fmt.Sprintf("job %q: two jobs have this name", j.Name)
		}
		seen[j.Name] = true
	}
	return ""
}

func (j *Job) complete() string {
	switch {
	case !nameRule.MatchString(j.Name):
		return "name: expected small letters, digits and dashes"
	case j.Workers < 1 || j.Workers > 64:
		return fmt.Sprintf("workers: found %d, expected 1 to 64", j.Workers)
	case j.Command == nil && (j.Data == "") != (j.Model == ""):
		return "data and model go together; a checkpoint of Rejoin's needs neither"
	case j.Command == nil && j.Data == "" && j.Checkpoint == "":
		return "nothing to train: name a checkpoint, or data and model, or a command"
	}
	if j.Output == "" {
		j.Output = j.Name
	}
	paths := []string{j.Checkpoint, j.Output, j.Data, j.Model, j.Config}
	for i := range j.Before {
		d := &j.Before[i]
		if problem := d.check(); problem != "" {
			return "before: " + problem
		}
		paths = append(paths, d.path(), d.To)
	}
	for _, in := range j.During {
		if problem := in.check(j.Workers); problem != "" {
			return "during: " + problem
		}
	}
	for _, e := range j.Expect.Equal {
		if problem := e.check(); problem != "" {
			return "equal: " + problem
		}
		paths = append(paths, e.To, e.File)
	}
	for _, p := range paths {
		if p != "" && !filepath.IsLocal(p) {
			return fmt.Sprintf("path %q leads out of the scenario's directory", p)
		}
	}
	return ""
}

func (in *Interruption) check(workers int) string {
	switch {
	case in.When == "":
		return "when is missing: the text of a line to wait for"
	case in.Do != "kill" && in.Do != "stop" && in.Do != "interrupt":
		return fmt.Sprintf("do: found %q, expected kill, stop or interrupt", in.Do)
	case in.Rank != nil && (*in.Rank < 0 || *in.Rank >= workers):
		return fmt.Sprintf("rank: found %d, expected 0 to %d", *in.Rank, workers-1)
	case in.Do == "stop" && in.Rank == nil:
		return "rank is missing: stop a rank"
	}
	return ""
}

func (e *Equality) check() string {
	if e.To == "" {
		return "to is missing: the run to be equal to"
	}
	if e.Tolerance < 0 || e.Tolerance > 1 {
		return fmt.Sprintf("tolerance: found %v, expected 0 to 1", e.Tolerance)
	}
	if e.Rows != nil && (e.Rows.Skip < 0 || e.Rows.PerUpdate < 0) {
		return "rows: a negative number"
	}
	if e.File != "" && (e.Checkpoints != nil || e.Rows != nil || e.Tolerance != 0) {
		return "file compares one file with another, and nothing else"
	}
	for _, p := range e.Parts {
		if !slices.Contains(allParts, p) {
			return fmt.Sprintf("parts: found %q, expected some of %v", p, allParts)
		}
	}
	return ""
}
