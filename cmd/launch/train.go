package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rejoin/launch/jobflags"
	"rejoin/trainer"
)

// bindTraining declares the flags that train and resume share.
func bindTraining(fs *pflag.FlagSet, r *trainer.Request) (maxSteps, saveSteps *string) {
	fs.StringVar(&r.Data, "data", "", "training data, JSON Lines `FILE`")
	fs.StringVar(&r.Model, "model", "", "model description, YAML `FILE`")
	fs.StringVar(&r.EvalData, "eval-data", "", "evaluation data, JSON Lines `FILE`; see eval_strategy, eval_steps")
	fs.StringVar(&r.Config, "config", "", "training arguments by the Trainer's names, YAML `FILE`")
	fs.StringArrayVar(&r.Set, "set", nil, "set one training argument, as in --set learning_rate=1e-3 (repeatable) `NAME=VALUE`")
	fs.StringVar(&r.OutputDir, "output-dir", "", "where checkpoints go `DIR`")
	fs.BoolVar(&r.Trace, "trace", false, "write trace-rankR.json: the rows of each micro-batch trained on")
	fs.BoolVar(&r.Strict, "strict", false, "refuse what would be a warning: a missing random state, a skipped checkpoint, …")
	fs.StringVar(&r.OnNaN, "on-nan", "", "at a loss or gradient that is not finite: stop, skip the update, or go-on `POLICY` (default stop)")
	fs.BoolVar(&r.Overwrite, "overwrite", false, "replace checkpoints that are there already and differ")
	maxSteps = fs.String("max-steps", "", "updates of the whole run `N`")
	saveSteps = fs.String("save-steps", "", "updates between checkpoints `N`")
	return maxSteps, saveSteps
}

// addSteps turns --max-steps and --save-steps into training arguments.
func addSteps(r *trainer.Request, maxSteps, saveSteps string) error {
	for _, flag := range []struct{ name, value string }{{"max_steps", maxSteps}, {"save_steps", saveSteps}} {
		if flag.value == "" {
			continue
		}
		if _, err := strconv.ParseFloat(flag.value, 64); err != nil {
			return &usageError{fmt.Errorf("--%s: found %q, expected a number of updates", flag.name, flag.value)}
		}
		r.Set = append(r.Set, flag.name+"="+flag.value)
	}
	return nil
}

func newTrain(job *jobflags.Flags, stdout, stderr io.Writer) *cobra.Command {
	r := &trainer.Request{}
	var maxSteps, saveSteps *string
	cmd := &cobra.Command{
		Use:   "train --data FILE --model FILE [flags]",
		Short: "Train from scratch",
		Long: `Train from scratch. The model's weights are drawn from the seed as torch would
draw them, or read from --init FILE.`,
		Example: `  launch --nproc 2 train --data train.jsonl --model model.yaml --config train.yaml --output-dir out
  launch train --data train.jsonl --model model.yaml --init initial_state_dict.pt --set learning_rate=1e-3 --max-steps 100`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := addSteps(r, *maxSteps, *saveSteps); err != nil {
				return err
			}
			return runJob(cmd.Context(), job, r, stdout, stderr)
		},
	}
	maxSteps, saveSteps = bindTraining(cmd.Flags(), r)
	cmd.Flags().StringVar(&r.Init, "init", "", "weights to begin with: a state dict of torch.save or safetensors `FILE`")
	return cmd
}

func newResume(job *jobflags.Flags, stdout, stderr io.Writer) *cobra.Command {
	r := &trainer.Request{}
	var maxSteps, saveSteps *string
	cmd := &cobra.Command{
		Use:   "resume CHECKPOINT [flags]",
		Short: "Rejoin a run at a checkpoint",
		Long: `Rejoin a run at a checkpoint: a checkpoint-N directory, or a directory of them,
which means its newest complete one.

A checkpoint that Rejoin wrote needs nothing else. One that the Hugging Face
Trainer wrote needs --data, and --model unless its architecture is known; its
training arguments are read from training_args.bin, as data.`,
		Example: `  launch --nproc 2 resume out/checkpoint-2
  launch --nproc 2 resume out
  launch --nproc 2 resume checkpoint-500 --data train.jsonl --model model.yaml --output-dir out
  launch --nproc 2 resume checkpoint-500 --map-location device --location-rules torch   # the bug, on demand`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{fmt.Errorf("resume takes one checkpoint, found %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Checkpoint = args[0]
			if err := addSteps(r, *maxSteps, *saveSteps); err != nil {
				return err
			}
			return runJob(cmd.Context(), job, r, stdout, stderr)
		},
	}
	maxSteps, saveSteps = bindTraining(cmd.Flags(), r)
	cmd.Flags().StringVar(&r.MapLocation, "map-location", "cpu", "where tensors go: cpu, device (what transformers ≤5.17 gives each rank), or a torch device `LOCATION`")
	cmd.Flags().StringVar(&r.LocationRules, "location-rules", "lenient", "lenient: any saved tag loads on the CPU; torch: torch's own rules `RULES`")
	return cmd
}
