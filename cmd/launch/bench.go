package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"rejoin/ckpt/bench"
	"rejoin/harness"
	"rejoin/launch/jobflags"
)

// maxBenchMB is the largest checkpoint that is generated, in MB: it is held in
// memory, several times.
const maxBenchMB = 1 << 16

func newBench(job *jobflags.Flags, stdout, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench COMMAND",
		Short: "Measure this machine, beside torch if it is there",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchCheckpoint(stdout, stderr), newBenchTrain(job, stdout, stderr), newBenchHold(stdout))
	cmd.AddCommand(newBenchAllReduce(job, stdout, stderr), newBenchRank(stdout))
	return cmd
}

// holdCommand is a process that bench checkpoint starts.
const holdCommand = "hold"

func newBenchHold(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:    holdCommand + " FILE",
		Short:  "Load a file and hold it until the input ends",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return bench.Hold(args[0], cmd.InOrStdin(), stdout) },
	}
}

func newBenchCheckpoint(stdout, stderr io.Writer) *cobra.Command {
	var asJSON bool
	size, rounds := 200, 3
	processes := []int{1, 2, 4}
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Measure how fast checkpoints are loaded and saved, and in how much memory",
		Long: `Measure how fast checkpoints are loaded and saved, and in how much memory: a
generated model with its Adam state, as a torch file and as safetensors, beside
a plain write of the same bytes and, where Python (REJOIN_PYTHON, or python3)
has torch, torch.load and torch.save, all taking turns.

Then 1, 2 and 4 processes load the same file at once: the memory of their own,
and the file's pages, which the kernel keeps once for all (Linux only).

A load ends with all elements in memory of the reader's own. Files are in the
page cache and not synced: the program is measured, not the disk. The files are
in a temporary directory (TMPDIR), up to six times the size, and are removed.`,
		Example: `  launch bench checkpoint
  launch bench checkpoint --size 1000 --json | jq .ratios
  REJOIN_PYTHON=venv/bin/python launch bench checkpoint`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if size < 1 || size > maxBenchMB {
				return &usageError{fmt.Errorf("--size: found %d MB, expected 1 to %d", size, maxBenchMB)}
			}
			if rounds < 1 || rounds > 1000 {
				return &usageError{fmt.Errorf("--rounds: found %d, expected 1 to 1000", rounds)}
			}
			if i := slices.IndexFunc(processes, func(n int) bool { return n < 1 || n > 1000 }); i >= 0 {
				return &usageError{fmt.Errorf("--procs: found %d, expected 1 to 1000", processes[i])}
			}
			o := bench.Options{Bytes: int64(size) * 1e6, Rounds: rounds, Processes: processes}
			return benchCheckpoint(cmd.Context(), o, asJSON, stdout, stderr)
		},
	}
	cmd.Flags().IntVar(&size, "size", size, "size of the state, in `MB`")
	cmd.Flags().IntVar(&rounds, "rounds", rounds, "time each operation `N` times; the fastest counts")
	cmd.Flags().IntSliceVar(&processes, "procs", processes, "let `N,…` processes load one file at once, for the memory of a host")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func benchCheckpoint(ctx context.Context, o bench.Options, asJSON bool, stdout, stderr io.Writer) error {
	o.Python, o.NoTorch = pythonWithTorch(ctx)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Hold = func(ctx context.Context, path string) *exec.Cmd {
		return exec.CommandContext(ctx, self, "bench", holdCommand, path)
	}
	if runtime.GOOS != "linux" {
		o.Processes = nil
	}
	bar := newProgress(stderr, "measuring")
	defer bar.end()
	o.Progress = bar.set
	var result *bench.Result
	err = interruptible(ctx, func(ctx context.Context) (err error) {
		result, err = bench.Run(ctx, o)
		return err
	})
	bar.end()
	if err != nil {
		return err
	}
	return printReport(stdout, result, asJSON)
}

// printReport prints a benchmark's result, for people or as JSON.
func printReport(w io.Writer, result interface {
	WriteText(w io.Writer, heading func(string) string) error
}, asJSON bool,
) error {
	if asJSON {
		return writeJSON(w, result)
	}
	return result.WriteText(w, styleFor(w).Heading)
}

// pythonWithTorch is an interpreter, or why there is none.
func pythonWithTorch(ctx context.Context) (path, problem string) {
	p := harness.FindPython(ctx)
	switch {
	case p.Problem != "":
		return "", p.Problem
	case p.Modules["torch"].Error != "":
		return "", fmt.Sprintf("%s cannot import torch: %s", p.Path, p.Modules["torch"].Error)
	}
	return p.Path, ""
}
