package trainbench

import (
	"context"
	_ "embed" // peer.py
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed peer.py
var peerScript string

// Options say what to race.
type Options struct {
	// Launch is the launcher's program.
	Launch string
	// Python is an interpreter that has torch; "" measures without it.
	Python string
	// NoTorch says why Python is "".
	NoTorch string
	// WorldSize is the number of worker processes.
	WorldSize int
	// Widths are the model's: inputs, hidden layers, classes.
	Widths []int
	// BatchSize is the rows of one worker's batch.
	BatchSize int
	// Steps are the updates that are timed, after those that are not.
	Steps int
	// Rounds is how often each run is made; the fastest counts.
	Rounds int
	// Progress, if not nil, is told how many runs of all are done.
	Progress func(done, total int64)

	now func() time.Time // time.Now but in tests
}

// warmSteps are the updates of the short run.
const warmSteps = 10

// runTimeout bounds one run: a program that hangs is ended.
const runTimeout = 10 * time.Minute

// Speed is how one side did.
type Speed struct {
	// StepsPerSecond counts updates of all workers together.
	StepsPerSecond float64 `json:"steps_per_s"`
	// StartSeconds is from the command to its end, without the steps.
	StartSeconds float64 `json:"start_s"`
}

// Result is what was measured.
type Result struct {
	WorldSize  int    `json:"world_size"`
	Widths     []int  `json:"widths"`
	BatchSize  int    `json:"batch_size"`
	Parameters int    `json:"parameters"`
	Steps      int    `json:"steps"`
	Rounds     int    `json:"rounds"`
	Rejoin     Speed  `json:"rejoin"`
	Torch      *Speed `json:"torch,omitempty"`
	Version    string `json:"torch_version,omitempty"`
	Skipped    string `json:"torch_skipped,omitempty"` // why there is no torch
	// SpeedOfTorch is our steps a second by torch's; StartOfTorch our start's time
	// by torch's. Both are 0 without torch.
	SpeedOfTorch float64 `json:"speed_of_torch"`
	StartOfTorch float64 `json:"start_of_torch"`
}

// Validate says what cannot be raced.
func (o *Options) Validate() error {
	switch {
	case len(o.Widths) < 2:
		return fmt.Errorf("a model of the widths %v has no layer; expected at least inputs and classes", o.Widths)
	case o.WorldSize < 1 || o.BatchSize < 1 || o.Steps < 1 || o.Rounds < 1:
		return fmt.Errorf("%d workers, batches of %d rows, %d steps and %d rounds: expected at least 1 of each", o.WorldSize, o.BatchSize, o.Steps, o.Rounds)
	}
	for _, w := range o.Widths {
		if w < 1 || w > 1<<16 {
			return fmt.Errorf("a layer's width is %d, expected 1 to %d", w, 1<<16)
		}
	}
	return nil
}

// racer is one side: its command line for a number of steps, and its fastest runs.
type racer struct {
	name        string
	command     func(steps int) []string
	short, long time.Duration
	said        string // by the last run
}

// Run races. It ends early with ctx, and leaves nothing behind.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rejoin-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.now == nil {
		o.now = time.Now
	}
	racers := []*racer{nil}
	if racers[0], err = o.ours(dir); err != nil {
		return nil, err
	}
	if o.Python != "" {
		theirs, err := o.theirs(dir)
		if err != nil {
			return nil, err
		}
		racers = append(racers, theirs)
	}
	if err := race(ctx, racers, o); err != nil {
		return nil, err
	}
	for _, r := range racers {
		if r.long <= r.short {
			return nil, fmt.Errorf("%s: %d steps took no longer than %d, so their time cannot be told: time more steps", r.name, warmSteps+o.Steps, warmSteps)
		}
	}
	return o.result(racers), nil
}

// race lets the sides take turns.
func race(ctx context.Context, racers []*racer, o Options) error {
	done, total := int64(0), int64(2*o.Rounds*len(racers))
	for range o.Rounds {
		for _, r := range racers {
			for _, run := range []struct {
				steps   int
				fastest *time.Duration
			}{{warmSteps, &r.short}, {warmSteps + o.Steps, &r.long}} {
				took, err := r.run(ctx, run.steps, o.now)
				if err != nil {
					return err
				}
				if *run.fastest == 0 || took < *run.fastest {
					*run.fastest = took
				}
				if done++; o.Progress != nil {
					o.Progress(done, total)
				}
			}
		}
	}
	return nil
}

// run makes one run of so many steps.
func (r *racer) run(ctx context.Context, steps int, now func() time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	line := r.command(steps)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the launcher ends its workers
	cmd.WaitDelay = 10 * time.Second
	begun := now()
	said, err := cmd.CombinedOutput()
	took := now().Sub(begun)
	if err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", r.name, errors.Join(err, ctx.Err()), said)
	}
	r.said = string(said)
	return took, nil
}

func (r *racer) speed(o Options) Speed {
	perStep := (r.long - r.short).Seconds() / float64(o.Steps)
	return Speed{StepsPerSecond: 1 / perStep, StartSeconds: r.short.Seconds() - perStep*warmSteps}
}

func (o Options) result(racers []*racer) *Result {
	r := &Result{
		WorldSize: o.WorldSize, Widths: o.Widths, BatchSize: o.BatchSize, Steps: o.Steps, Rounds: o.Rounds,
		Rejoin: racers[0].speed(o), Skipped: o.NoTorch,
	}
	for i, in := range o.Widths[:len(o.Widths)-1] {
		r.Parameters += (in + 1) * o.Widths[i+1]
	}
	if len(racers) > 1 {
		torch := racers[1].speed(o)
		r.Torch = &torch
		r.SpeedOfTorch = r.Rejoin.StepsPerSecond / torch.StepsPerSecond
		r.StartOfTorch = r.Rejoin.StartSeconds / torch.StartSeconds
		_, version, _ := strings.Cut(racers[1].said, "torch ")
		r.Version, _, _ = strings.Cut(version, "\n")
	}
	return r
}

// theirs is plain DDP in the launcher's environment for any program, torchrun's.
func (o Options) theirs(dir string) (*racer, error) {
	script := filepath.Join(dir, "peer.py")
	if err := os.WriteFile(script, []byte(peerScript), 0o666); err != nil {
		return nil, err
	}
	widths := make([]string, len(o.Widths))
	for i, w := range o.Widths {
		widths[i] = strconv.Itoa(w)
	}
	return &racer{name: "torch's DDP over gloo", command: func(steps int) []string {
		return []string{
			o.Launch, "--nproc", strconv.Itoa(o.WorldSize), "run", "--", o.Python, script,
			strings.Join(widths, ","), strconv.Itoa(o.BatchSize), strconv.Itoa(steps),
		}
	}}, nil
}
