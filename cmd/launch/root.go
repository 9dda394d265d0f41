package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"rejoin/launch/jobflags"
	"rejoin/trainer"
)

// exitUsage is the exit code for a wrong command line, as torchrun's.
const exitUsage = 2

// exitError carries an exit code whose text is already printed.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// usageError is a wrong command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var exit *exitError
	var usage *usageError
	var start *startError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &start):
		fmt.Fprintf(stderr, "launch: error: %v\n", err)
		return start.code
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "launch: %v\n(see launch --help)\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "launch: error: %v\n", err)
		return 1
	}
}

const rootLong = `Launch trains a model on CPUs with N worker processes, and rejoins a run where
it stopped: every rank loads the shared PyTorch or Hugging Face checkpoint,
rebuilds its optimizer and goes on as if nothing had happened.`

const rootExample = `  launch --nproc 2 train --data train.jsonl --model model.yaml --output-dir out
  launch --nproc 2 resume out/checkpoint-2
  launch --nproc 2 resume checkpoint-500 --data train.jsonl --model model.yaml --output-dir out`

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:               "launch [job flags] COMMAND",
		Short:             "Train on CPUs with N workers, and rejoin a run where it stopped",
		Long:              rootLong,
		Example:           rootExample,
		Version:           trainer.Version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Args:              noArguments,
		TraverseChildren:  true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Global Flags:", "Job flags (before or after the command):"))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.SetGlobalNormalizationFunc(jobflags.Normalize)
	job := jobflags.Bind(root.PersistentFlags())
	root.AddCommand(newResume(job, stdout, stderr), newTrain(job, stdout, stderr), newCkpt(stdout, stderr))
	root.AddCommand(newRun(job, stdout, stderr), newExpand(), newHarness(stdout), newEnv(stdout), newBench(job, stdout, stderr))
	return root
}

// noArguments refuses arguments, as a wrong command line.
func noArguments(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return &usageError{err}
	}
	return nil
}
