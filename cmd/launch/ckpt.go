package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"rejoin/ckpt"
	"rejoin/ckpt/inspect"
	"rejoin/ckpt/source"
	"rejoin/tensor"
)

// exitDiffers is the exit code of checkpoints that differ or are damaged.
const exitDiffers = 1

const ckptLong = `Look into checkpoints, compare, convert and verify them: files of torch.save in
any container (zip, legacy, tar), safetensors, shard indexes, and checkpoint
directories. Nothing in a file is ever executed.

Exit codes: 0 fine or equal, 1 damaged or different, 2 a wrong command line.`

func newCkpt(stdout, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ckpt COMMAND",
		Short: "Look into checkpoints, compare, convert and verify them",
		Long:  ckptLong,
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newInspect(stdout, stderr), newDiff(stdout, stderr), newConvert(stdout, stderr), newVerify(stdout, stderr))
	return cmd
}

// arguments refuses any number of arguments but those between low and high.
func arguments(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			return &usageError{fmt.Errorf("%s takes %s, found %d arguments", cmd.Name(), what, len(args))}
		}
		return nil
	}
}

// locationFlags are --map-location and --location-rules of the tools.
type locationFlags struct{ location, rules string }

func (l *locationFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.location, "map-location", "cpu", "where tensors go: cpu, device, none, a torch device, or a dict as in cuda:0=cpu,cuda:1=cpu `LOCATION`")
	cmd.Flags().StringVar(&l.rules, "location-rules", "lenient", "lenient: any saved tag loads on the CPU; torch: torch's own rules `RULES`")
}

// mapLocation reads the flags. A tool is one process, so "device" is plain cpu.
func (l *locationFlags) mapLocation() (tensor.MapLocation, error) {
	rules, err := tensor.ParseLocationRules(l.rules)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--location-rules: %w", err)}
	}
	m, err := tensor.ParseMapLocation(l.location, rules, "cpu")
	if err != nil {
		return nil, &usageError{fmt.Errorf("--map-location: %w", err)}
	}
	return m, nil
}

// isTerminal reports whether w is a terminal that a person reads.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// styleFor decorates text for a terminal, unless NO_COLOR is set.
func styleFor(w io.Writer) inspect.Style {
	if !isTerminal(w) || os.Getenv("NO_COLOR") != "" {
		return inspect.Style{}
	}
	code := func(on string) func(string) string {
		return func(s string) string { return "\x1b[" + on + "m" + s + "\x1b[0m" }
	}
	return inspect.Style{Heading: code("1"), Warning: code("33")}
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func newInspect(stdout, stderr io.Writer) *cobra.Command {
	var asJSON, hash bool
	cmd := &cobra.Command{
		Use:   "inspect PATH",
		Short: "Show what a checkpoint holds",
		Long: `Show what a checkpoint holds: its keys with dtype, shape, bytes viewed and
stored, the device they were saved on and with whom they share memory; every
other value; the optimizer; and what wrote it. Objects of classes that are not
plain data are described and never run.

PATH is a file, a shard index, a checkpoint directory, or a directory of
checkpoints, of which the newest complete one is taken.

Exit codes: 0 fine, 1 a file could not be read, 2 a wrong command line.`,
		Example: `  launch ckpt inspect out/checkpoint-500
  launch ckpt inspect --hash model_dp2_cuda.pth
  launch ckpt inspect --json --hash pytorch_model.bin.index.json | jq '.tensors[].key'`,
		Args: arguments(1, 1, "one checkpoint"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return inspectPath(cmd.Context(), args[0], hash, asJSON, stdout, stderr)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&hash, "hash", false, "add the SHA-256 of each tensor's elements, as C-contiguous little-endian bytes")
	return cmd
}

func inspectPath(ctx context.Context, path string, hash, asJSON bool, stdout, stderr io.Writer) error {
	s, err := source.Open(path, ckpt.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // read only
	bar := newProgress(stderr, "hashing")
	defer bar.end()
	report, err := inspect.Inspect(ctx, s, inspect.Options{Hash: hash, Progress: bar.set})
	bar.end()
	if err != nil {
		return err
	}
	if asJSON {
		err = writeJSON(stdout, report)
	} else {
		err = report.WriteText(stdout, styleFor(stdout))
	}
	if err == nil && report.Damaged() {
		return &exitError{exitDiffers}
	}
	return err
}
