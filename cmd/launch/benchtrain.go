package main

import (
	"context"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"rejoin/harness/trainbench"
	"rejoin/launch/jobflags"
)

func newBenchTrain(flags *jobflags.Flags, stdout, stderr io.Writer) *cobra.Command {
	var asJSON bool
	o := trainbench.Options{Widths: []int{64, 256, 256, 10}, BatchSize: 32, Steps: 500, Rounds: 3}
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Race training against torch's DDP over gloo",
		Long: `Race training against torch's DistributedDataParallel over gloo, where Python
(REJOIN_PYTHON, or python3) has torch: the same model, batch, optimizer and
number of workers on this machine's CPUs, taking turns. Each side makes a short
run and a long one; the steps' time is their difference, and the rest is start
and end, from the command line on.`,
		Example: `  launch --nproc 2 bench train
  launch --nproc 4 bench train --layers 784,1024,1024,10 --batch 64
  REJOIN_PYTHON=venv/bin/python launch --nproc 2 bench train --json | jq .speed_of_torch`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			job, err := flags.Resolve(jobflags.Host{Lookup: os.LookupEnv, CPUs: runtime.NumCPU(), Hostname: os.Hostname})
			if err != nil {
				return &usageError{err}
			}
			o.WorldSize = job.NProc
			if err := o.Validate(); err != nil {
				return &usageError{err}
			}
			return benchTrain(cmd.Context(), o, asJSON, stdout, stderr)
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&o.Widths, "layers", o.Widths, "`WIDTHS` of the model: inputs, hidden layers, classes")
	f.IntVar(&o.BatchSize, "batch", o.BatchSize, "`ROWS` of one worker's batch")
	f.IntVar(&o.Steps, "steps", o.Steps, "`N` updates to time")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "make each run `N` times; the fastest counts")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func benchTrain(ctx context.Context, o trainbench.Options, asJSON bool, stdout, stderr io.Writer) (err error) {
	if o.Launch, err = os.Executable(); err != nil {
		return err
	}
	o.Python, o.NoTorch = pythonWithTorch(ctx)
	bar := newProgress(stderr, "racing")
	defer bar.end()
	o.Progress = bar.set
	var result *trainbench.Result
	err = interruptible(ctx, func(ctx context.Context) (err error) {
		result, err = trainbench.Run(ctx, o)
		return err
	})
	bar.end()
	if err != nil {
		return err
	}
	return printReport(stdout, result, asJSON)
}
