package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"

	"rejoin/ckpt/names"
	"rejoin/ckpt/verify"
	"rejoin/model"
	"rejoin/tensor"
)

func newVerify(stdout, stderr io.Writer) *cobra.Command {
	var asJSON bool
	var modelPath string
	var o verify.Options
	cmd := &cobra.Command{
		Use:   "verify PATH",
		Short: "Tell whether a checkpoint is whole",
		Long: `Tell whether a checkpoint is whole: the structure of every file, the checksums
of torch's records (which torch itself does not look at), manifest.json's sizes
and hashes, shards against their index, all that a resume needs; with --finite,
every element; and, where the model is known from the manifest or --model, that
it takes the weights and computes with them. Every problem is listed with its
file and the next step.

Exit codes: 0 whole, 1 damaged or incomplete, 2 a wrong command line.`,
		Example: `  launch ckpt verify out/checkpoint-500
  launch ckpt verify --finite --model model.yaml model_cpu.safetensors
  launch ckpt verify --json out | jq -r '.problems[].problem'`,
		Args: arguments(1, 1, "one checkpoint"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if modelPath != "" {
				text, err := os.ReadFile(modelPath)
				if err != nil {
					return fmt.Errorf("--model: %w", err)
				}
				o.Description = string(text)
			}
			return verifyPath(cmd.Context(), args[0], o, asJSON, stdout, stderr)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&o.Finite, "finite", false, "check that no element is NaN or infinite")
	cmd.Flags().StringVar(&modelPath, "model", "", "model description to run the weights in, YAML `FILE`")
	return cmd
}

func verifyPath(ctx context.Context, path string, o verify.Options, asJSON bool, stdout, stderr io.Writer) error {
	bar := newProgress(stderr, "reading")
	defer bar.end()
	o.Progress, o.Forward = bar.set, forwardOnce
	result, err := verify.Verify(ctx, path, o)
	bar.end()
	if err != nil {
		return err
	}
	if asJSON {
		err = writeJSON(stdout, result)
	} else {
		style := styleFor(stdout)
		err = result.WriteText(stdout, style.Heading, style.Warning)
	}
	if err == nil && !result.OK {
		return &exitError{exitDiffers}
	}
	return err
}

// forwardOnce builds the model that description describes, gives it the weights
// and computes one row of ones.
func forwardOnce(description string, weights *tensor.StateDict, ties map[string]string) error {
	spec, err := model.ParseSpec([]byte(description))
	if err != nil {
		return err
	}
	m, err := model.New(spec, 1)
	if err != nil {
		return err
	}
	var params []names.Param
	for _, p := range m.Params() {
		params = append(params, names.Param{Name: p.Name, Shape: p.Shape})
	}
	match, err := names.Find(weights, params, names.Options{Ties: ties})
	if err != nil {
		return err
	}
	if err := m.Load(match.Select(weights, params)); err != nil {
		return err
	}
	input := make([]float32, spec.InputSize())
	for i := range input {
		input[i] = 1
	}
	output, err := m.Forward(1, input)
	if err != nil {
		return err
	}
	for i, v := range output {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("output %d of a row of ones is %v", i, v)
		}
	}
	return nil
}
