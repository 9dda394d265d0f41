package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"rejoin/collective/bench"
	"rejoin/launch"
	"rejoin/launch/jobflags"
)

func newBenchAllReduce(flags *jobflags.Flags, stdout, stderr io.Writer) *cobra.Command {
	var asJSON bool
	rounds := 3
	cmd := &cobra.Command{
		Use:   "allreduce",
		Short: "Measure how long the ranks of this host take to sum a buffer",
		Long: `Measure how long the ranks of this host take to sum a buffer of float32, from
4 bytes to 64 MiB, in processes of their own as a job's workers are; and, where
Python (REJOIN_PYTHON, or python3) has torch, how long torch.distributed's
all_reduce over gloo takes for the same, in turns with ours.`,
		Example: `  launch --nproc 2 bench allreduce
  launch --nproc 4 bench allreduce --json | jq '.sizes[] | {bytes, ratio}'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rounds < 1 || rounds > 1000 {
				return &usageError{fmt.Errorf("--rounds: found %d, expected 1 to 1000", rounds)}
			}
			job, err := flags.Resolve(jobflags.Host{Lookup: os.LookupEnv, CPUs: runtime.NumCPU(), Hostname: os.Hostname})
			if err != nil {
				return &usageError{err}
			}
			if job.NProc < 2 {
				return &usageError{fmt.Errorf("--nproc: found %d, expected at least 2 ranks to sum: launch --nproc 2 bench allreduce", job.NProc)}
			}
			result, err := benchAllReduce(cmd.Context(), job, rounds, stderr)
			if err != nil {
				return err
			}
			return printReport(stdout, result, asJSON)
		},
	}
	cmd.Flags().IntVar(&rounds, "rounds", rounds, "let the two take turns `N` times")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// benchAllReduce runs one job after the other, ours and gloo's in turns.
func benchAllReduce(ctx context.Context, job jobflags.Job, rounds int, stderr io.Writer) (*bench.Result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	plan, err := bench.Plan()
	if err != nil {
		return nil, err
	}
	python, noTorch := pythonWithTorch(ctx)
	result := bench.NewResult(job.NProc, rounds, noTorch)
	bar := newProgress(stderr, "measuring")
	defer bar.end()
	for i := range rounds {
		if err := benchRound(ctx, job, result, false, self, benchRank...); err != nil {
			return nil, err
		}
		if python != "" {
			if err := benchRound(ctx, job, result, true, python, "-c", bench.Gloo, plan); err != nil {
				return nil, err
			}
		}
		bar.set(int64(i+1), int64(rounds))
	}
	return result, nil
}

// benchRound runs a program as the ranks of one job, and adds what rank 0 prints
// to the result.
func benchRound(ctx context.Context, job jobflags.Job, result *bench.Result, gloo bool, program string, args ...string) error {
	var printed, said bytes.Buffer
	cfg := launch.Config{Program: program, Args: args, Grace: time.Second, PeerFailedCodes: []int{workerPeerFailed}}
	job.Apply(&cfg)
	cfg.RunID = "" // every round is a job of its own
	cfg.Stdout, cfg.Stderr, cfg.Prefix = &printed, &said, func(int) string { return "" }
	report, err := runRanks(ctx, job, cfg, nil, func(*launch.Config) {})
	if err != nil {
		return err
	}
	if report.ExitCode() != 0 {
		var why bytes.Buffer
		_, err := report.WriteTo(&why)
		return errors.Join(fmt.Errorf("%s: %s", program, bytes.TrimSpace(why.Bytes())), err)
	}
	return result.Add(gloo, printed.Bytes())
}
