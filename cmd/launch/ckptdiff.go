package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rejoin/ckpt"
	"rejoin/ckpt/compare"
	"rejoin/ckpt/source"
)

func newDiff(stdout, stderr io.Writer) *cobra.Command {
	var asJSON bool
	var o compare.Options
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say where two checkpoints differ",
		Long: `Say where two checkpoints differ: keys, shapes, dtypes, elements (largest
absolute, relative and ULP difference, first differing element) and every value
that is no tensor. Equal means equal bit for bit, unless a tolerance is given.

Two files are compared by all their keys, two checkpoint directories file by
file, with the weights in whatever files they are, and a file with a directory
or an index by the model's weights.

Exit codes: 0 equal, 1 different or unreadable, 2 a wrong command line.`,
		Example: `  launch ckpt diff out/checkpoint-500 again/checkpoint-500
  launch ckpt diff --rtol 1e-6 model.safetensors pytorch_model.bin
  launch ckpt diff --peel model_dp2_cuda.pth out/checkpoint-500   # without the "module." of DDP`,
		Args: arguments(2, 2, "two checkpoints"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if t := o.Tolerance; !(t.Abs >= 0 && t.Rel >= 0) {
				return &usageError{fmt.Errorf("--atol and --rtol: found %v and %v, expected numbers from 0", t.Abs, t.Rel)}
			}
			return diffPaths(cmd.Context(), args[0], args[1], o, asJSON, stdout, stderr)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().Float64Var(&o.Tolerance.Abs, "atol", 0, "elements within ATOL + RTOL·|b| of each other are equal, and NaN equals NaN `ATOL`")
	cmd.Flags().Float64Var(&o.Tolerance.Rel, "rtol", 0, "see --atol `RTOL`")
	cmd.Flags().BoolVar(&o.Peel, "peel", false, "compare the model's weights without the prefixes of wrappers (module., _orig_mod.) that every key has")
	return cmd
}

func diffPaths(ctx context.Context, a, b string, o compare.Options, asJSON bool, stdout, stderr io.Writer) error {
	sa, err := source.Open(a, ckpt.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = sa.Close() }() // read only
	sb, err := source.Open(b, ckpt.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = sb.Close() }() // read only
	bar := newProgress(stderr, "comparing")
	defer bar.end()
	o.Progress = bar.set
	result, err := compare.Compare(ctx, sa, sb, o)
	bar.end()
	if err != nil {
		return err
	}
	if asJSON {
		err = writeJSON(stdout, result)
	} else {
		err = result.WriteText(stdout, styleFor(stdout).Heading)
	}
	if err == nil && !result.Equal {
		return &exitError{exitDiffers}
	}
	return err
}
