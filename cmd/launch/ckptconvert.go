package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"rejoin/ckpt/convert"
	"rejoin/ckpt/inspect"
	"rejoin/tensor"
)

// convertFlags are the flags of convert as text.
type convertFlags struct {
	to, dtype, shard string
	location         locationFlags
	asJSON           bool
	o                convert.Options
}

func newConvert(stdout, stderr io.Writer) *cobra.Command {
	f := &convertFlags{}
	cmd := &cobra.Command{
		Use:   "convert IN [OUT]",
		Short: "Write a checkpoint in another format, dtype or division",
		Long: `Write a checkpoint anew: as torch.save's zip or as safetensors, which OUT's
extension says (.pt .pth .bin, or .safetensors) or --to; in shards with
--max-shard-size, where OUT is a directory. Without OUT, a name is suggested and
taken: model_dp2_cuda.pth becomes model_cpu.safetensors.

torch to torch keeps all that the file holds. Everything else writes the model's
weights, and says what it left out. Tied tensors stay tied: safetensors keeps
one copy and records the tie. Views take their own elements along and no more.
What is written is tagged cpu, whole under its name or not there, and replaces
nothing without --force.

Exit codes: 0 fine, 1 it could not be done, 2 a wrong command line.`,
		Example: `  launch ckpt convert --model-only model_dp2_cuda.pth            # → model_cpu.safetensors
  launch ckpt convert old_legacy.pt new.pt
  launch ckpt convert out/checkpoint-500 deploy --max-shard-size 2GB --dtype bfloat16
  launch ckpt convert --strip-prefix module. --add-prefix model. in.pt out.safetensors`,
		Args: arguments(1, 2, "a checkpoint and the name of what to write"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return interruptible(cmd.Context(), func(ctx context.Context) error {
				return f.run(ctx, args, stdout, stderr)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.to, "to", "", "torch or safetensors, where OUT's extension does not say `FORMAT`")
	fs.StringVar(&f.dtype, "dtype", "", "convert floating-point tensors: float64, float32, float16 or bfloat16 `DTYPE`")
	fs.StringVar(&f.shard, "max-shard-size", "", "write shards of at most this size and their index, as in 5GB `SIZE`")
	fs.StringVar(&f.o.StripPrefix, "strip-prefix", "", "take this off every key `PREFIX`")
	fs.StringVar(&f.o.AddPrefix, "add-prefix", "", "put this before every key `PREFIX`")
	fs.BoolVar(&f.o.ModelOnly, "model-only", false, "for deployment: the model's weights alone, without prefixes of wrappers (module., _orig_mod.)")
	fs.BoolVar(&f.o.Force, "force", false, "replace files that are there")
	fs.BoolVar(&f.asJSON, "json", false, "print JSON")
	f.location.bind(cmd)
	return cmd
}

// options reads what is text.
func (f *convertFlags) options() (o convert.Options, err error) {
	o = f.o
	if o.MapLocation, err = f.location.mapLocation(); err != nil {
		return o, err
	}
	switch o.To = convert.Format(f.to); o.To {
	case "", convert.Torch, convert.Safetensors:
	default:
		return o, &usageError{fmt.Errorf("--to: found %q, expected torch or safetensors", f.to)}
	}
	if f.dtype != "" {
		if o.DType, err = parseTarget(f.dtype); err != nil {
			return o, &usageError{err}
		}
	}
	if f.shard != "" {
		if o.MaxShardSize, err = convert.ParseSize(f.shard); err != nil {
			return o, &usageError{fmt.Errorf("--max-shard-size: %w", err)}
		}
	}
	return o, nil
}

func parseTarget(text string) (tensor.DType, error) {
	d, err := tensor.ParseDType(strings.TrimPrefix(text, "torch."))
	var known []string
	for _, target := range convert.Targets {
		if err == nil && d == target {
			return d, nil
		}
		known = append(known, target.String())
	}
	return tensor.Invalid, fmt.Errorf("--dtype: found %q, expected one of %s", text, strings.Join(known, ", "))
}

func (f *convertFlags) run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	in, out := args[0], ""
	if len(args) == 2 {
		out = args[1]
	} else {
		if o.To == "" {
			o.To = convert.Safetensors
		}
		out = convert.SuggestName(in, o.To)
		if o.MaxShardSize > 0 {
			out = strings.TrimSuffix(strings.TrimSuffix(out, ".safetensors"), ".pth")
		}
	}
	bar := newProgress(stderr, "writing")
	defer bar.end()
	o.Progress = bar.set
	result, err := convert.Run(ctx, in, out, o)
	bar.end()
	if wish := (*convert.OptionsError)(nil); errors.As(err, &wish) {
		return &usageError{err}
	}
	if err != nil {
		return err
	}
	if f.asJSON {
		return writeJSON(stdout, result)
	}
	for _, n := range result.Notes {
		fmt.Fprintln(stdout, n)
	}
	style := styleFor(stdout)
	for _, file := range result.Files {
		fmt.Fprintln(stdout, heading(style, "wrote "+file))
	}
	_, err = fmt.Fprintf(stdout, "%d tensors, %d bytes\n", result.Tensors, result.Bytes)
	return err
}

func heading(style inspect.Style, s string) string {
	if style.Heading == nil {
		return s
	}
	return style.Heading(s)
}
