package main

import (
	"errors"
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
	fs.StringVar(&r.Data, "data", "", "training data: a `FILE` of JSON Lines, CSV, Parquet, Arrow, NPY, NPZ or safetensors, or a directory of datasets' save_to_disk (on resume: the checkpoint's own)")
	fs.StringVar(&r.Model, "model", "", "model description: a YAML `FILE` (on resume: the checkpoint's own)")
	fs.StringVar(&r.EvalData, "eval-data", "", "evaluation data: a `FILE` as for --data (see eval_strategy in docs/arguments.md)")
	fs.StringVar(&r.Config, "config", "", "training arguments under the Trainer's names: a YAML `FILE` (see docs/arguments.md)")
	fs.StringArrayVar(&r.Set, "set", nil, "`NAME=VALUE` of one training argument, as in --set learning_rate=1e-3 (repeatable; wins over --config)")
	fs.StringVar(&r.OutputDir, "output-dir", "", "`DIR` for checkpoints (default: train: out; resume: the checkpoint's parent)")
	fs.BoolVar(&r.Trace, "trace", false, "write trace-rankR.json: the rows of each micro-batch trained on")
	fs.BoolVar(&r.Strict, "strict", false, "refuse what would be a warning: a missing random state, a skipped checkpoint, …")
	fs.StringVar(&r.OnNaN, "on-nan", "", "`stop|skip|go-on`: what to do at a loss or gradient that is not finite (default stop)")
	fs.StringVar(&r.UnevenRanks, "uneven-ranks", "", "`pad|drop|join`: how an epoch ends whose rows do not fill a last round (default pad, as accelerate)")
	fs.BoolVar(&r.Overwrite, "overwrite", false, "replace checkpoints that are there already and differ")
	fs.StringArrayVar(&r.Skip, "skip", nil, "`NAME` of weights to leave out, * for any characters; such parameters start anew (repeatable)")
	fs.BoolVar(&r.AllowMissing, "allow-missing", false, "accept parameters that the weights lack; they start anew")
	fs.StringVar(&r.Sampler, "sampler", "", "`ORDER` of rows: seedable_random (accelerate's, the default), sequential, or distributed (torch's DistributedSampler)")
	fs.StringVar(&r.SaveMode, "save-mode", trainer.SaveAsync, "`async|sync`: checkpoints are written while training goes on, or training waits")
	maxSteps = fs.String("max-steps", "", "`NUMBER` of updates of the whole run")
	saveSteps = fs.String("save-steps", "", "`NUMBER` of updates between checkpoints")
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
	cmd.Flags().StringVar(&r.Init, "init", "", "weights to begin with: a `FILE` of torch.save or safetensors")
	return cmd
}

func newResume(job *jobflags.Flags, stdout, stderr io.Writer) *cobra.Command {
	r := &trainer.Request{}
	var maxSteps, saveSteps *string
	cmd := &cobra.Command{
		Use:   "resume CHECKPOINT [flags]",
		Short: "Rejoin a run at a checkpoint",
		Long: `Rejoin a run at a checkpoint: a checkpoint-N directory, a directory of them,
which means its newest complete one, or a training script's own torch.save file.

A checkpoint that Rejoin wrote needs nothing else. One that the Hugging Face
Trainer wrote needs --data and --model; its training arguments are read from
training_args.bin, as data. A script's own dict, {epoch, model_state_dict,
optimizer_state_dict, …}, says little of its run: what it lacks is asked for by name.`,
		Example: `  launch --nproc 2 resume out/checkpoint-2
  launch --nproc 2 resume out
  launch --nproc 2 resume checkpoint-500 --data train.jsonl --model model.yaml --output-dir out
  launch --nproc 2 resume epoch_1.pth --data train.jsonl --model model.yaml --sampler distributed \
    --set data_seed=0 --set per_device_train_batch_size=16 --set num_train_epochs=4
  # the bug, on demand:
  launch --nproc 2 resume checkpoint-500 --data train.jsonl --model model.yaml --output-dir out \
    --map-location device --location-rules torch`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{fmt.Errorf("resume takes one checkpoint, found %d arguments", len(args))}
			}
			if args[0] == "" {
				return &usageError{errors.New("resume takes a checkpoint, found an empty name")}
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
	cmd.Flags().StringVar(&r.MapLocation, "map-location", "cpu", "`WHERE` tensors go: cpu, device (what transformers ≤5.17 gives each rank), none, a torch device, or a dict as in cuda:0=cpu,cuda:1=cpu")
	cmd.Flags().StringVar(&r.LocationRules, "location-rules", "lenient", "`lenient|torch`: any saved tag loads on the CPU, or torch's own rules")
	cmd.Flags().StringVar(&r.LRFrom, "lr-from", "checkpoint", "`checkpoint|args`: the saved learning rates, or the arguments' under the schedule")
	cmd.Flags().StringVar(&r.OnWorldChange, "on-world-change", "samples", "`samples|refuse`: with another number of workers keep progress in samples, or refuse")
	cmd.Flags().BoolVar(&r.FreshOptimizer, "fresh-optimizer", false, "begin with zero moments, without the checkpoint's optimizer.pt: the loss may jump")
	cmd.Flags().BoolVar(&r.FreshScheduler, "fresh-scheduler", false, "put the arguments' schedule at the checkpoint's step, without its scheduler.pt")
	cmd.Flags().BoolVar(&r.AlsoDict, "also-dict", false, "write the state as a training script's dict, checkpoint-N.pth, too, at each epoch's end")
	return cmd
}
