package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"rejoin/ckpt"
	"rejoin/ckpt/internal/publish"
	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/source"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// Options say what to write.
type Options struct {
	// To is the format; "" is that of the output's extension.
	To Format
	// MapLocation decides where storages go on the way; nil is [tensor.CPU].
	// What is written is tagged "cpu" in any case.
	MapLocation tensor.MapLocation
	// DType is what floating-point tensors become; Invalid leaves them.
	DType                  tensor.DType
	StripPrefix, AddPrefix string
	// ModelOnly writes the model's state dict alone, without wrapper prefixes
	// that every key has: a file to deploy.
	ModelOnly bool
	// MaxShardSize, in bytes, writes a directory of shards and their index; 0
	// writes one file.
	MaxShardSize int64
	// Force lets files be replaced.
	Force bool
	// Progress, if set, is told how many bytes of about total are written.
	Progress func(done, total int64)
}

// Result is what was written. Its JSON keys are stable.
type Result struct {
	Files   []string `json:"files"`
	Tensors int      `json:"tensors"`
	Bytes   int64    `json:"bytes"`
	Notes   []string `json:"notes"`
}

// ExistsError is a file that is there already and may not be replaced.
type ExistsError = publish.ExistsError

// OptionsError is a wish that cannot be met as it stands.
type OptionsError struct{ Problem string }

func (e *OptionsError) Error() string { return e.Problem }

// Run converts the checkpoint at in, and writes out: a file, or with
// MaxShardSize a directory.
func Run(ctx context.Context, in, out string, o Options) (*Result, error) {
	if o.To == "" {
		if o.To = FormatOf(out); o.To == "" && o.MaxShardSize > 0 {
			o.To = Safetensors
		}
	}
	if o.To != Torch && o.To != Safetensors {
		return nil, &OptionsError{fmt.Sprintf("%s does not tell the format; end it in .safetensors, .pt, .pth or .bin, or say --to safetensors or --to torch", out)}
	}
	if o.DType != tensor.Invalid && !slices.Contains(Targets, o.DType) {
		return nil, &OptionsError{fmt.Sprintf("elements are converted to %v, not to %v", Targets, o.DType)}
	}
	if info, err := os.Stat(out); err == nil && info.IsDir() && o.MaxShardSize == 0 {
		out = filepath.Join(out, weightsFile(o.To))
	}
	c := &conversion{options: o, out: out, set: publish.New(o.Force), result: &Result{Files: []string{}, Notes: []string{}}}
	err := c.run(ctx, in)
	if err = errors.Join(err, c.set.Abort()); err != nil {
		return nil, err
	}
	return c.result, nil
}

// weightsFile is the name that Hugging Face gives a file of weights.
func weightsFile(f Format) string {
	if f == Torch {
		return "pytorch_model.bin"
	}
	return "model.safetensors"
}

type conversion struct {
	options Options
	out     string
	set     *publish.Set
	result  *Result
	done    int64
	total   int64
}

func (c *conversion) run(ctx context.Context, in string) error {
	o := c.options
	changes := o.DType != tensor.Invalid || o.StripPrefix != "" || o.AddPrefix != ""
	if !o.ModelOnly && !changes && o.To == Torch && o.MaxShardSize == 0 {
		if whole, err := c.wholeFile(ctx, in); whole || err != nil {
			return err
		}
	}
	s, err := source.Open(in, ckpt.Options{MapLocation: o.MapLocation})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // read only
	c.result.Notes = append(c.result.Notes, s.Notes...)
	c.sayTags(s.Tags())
	w, err := takeModel(s)
	if err != nil {
		return err
	}
	if err := c.change(w); err != nil {
		return err
	}
	c.result.Tensors = w.sd.Len()
	err = c.writeModel(ctx, w)
	c.result.Notes = append(c.result.Notes, w.notes...)
	return err
}

func (c *conversion) sayTags(tags map[string]int) {
	if line := tensor.ForeignTags(tags); line != "" {
		c.result.Notes = append(c.result.Notes, line+"; what is written is tagged cpu")
	}
}

// change applies what was asked for, in the order: names, then elements.
func (c *conversion) change(w *weights) error {
	o := c.options
	if o.StripPrefix != "" {
		if err := w.strip(o.StripPrefix); err != nil {
			return err
		}
	} else if o.ModelOnly {
		if err := w.peel(); err != nil {
			return err
		}
	}
	if o.AddPrefix != "" {
		if err := w.add(o.AddPrefix); err != nil {
			return err
		}
	}
	if o.DType != tensor.Invalid {
		return w.convertTo(o.DType)
	}
	return nil
}

// wholeFile writes all that a torch file holds, weights or not; false if in is
// no torch file. Unknown classes are refused: --model-only goes without them.
func (c *conversion) wholeFile(ctx context.Context, in string) (bool, error) {
	info, err := os.Stat(in)
	if err != nil || !info.Mode().IsRegular() || filepath.Ext(in) == ".json" {
		return false, nil // source.Open tells what it is
	}
	opened, err := ckpt.Open(in, ckpt.Options{MapLocation: c.options.MapLocation})
	if unknown := (*torchfile.UnsupportedGlobalError)(nil); errors.As(err, &unknown) {
		return true, fmt.Errorf("%w; the model's weights alone can be had with --model-only", err)
	}
	if err != nil {
		return true, err
	}
	defer opened.Close()
	if opened.Torch() == nil {
		return false, nil
	}
	c.sayTags(opened.Tags())
	tensors, size := countTensors(opened.Object())
	c.result.Tensors, c.total = tensors, size
	return true, c.publish(ctx, map[string]func(io.Writer) error{
		c.out: func(w io.Writer) error {
			return torchfile.Write(w, torchfile.ArchiveName(c.out), opened.Object())
		},
	}, []string{c.out})
}

// writeModel writes the state dict in one file or in shards.
func (c *conversion) writeModel(ctx context.Context, w *weights) error {
	if c.options.MaxShardSize > 0 {
		return c.writeShards(ctx, w)
	}
	c.total = sizeOf(w.sd)
	write, err := c.fileWriter(w, w.sd, c.out)
	if err != nil {
		return err
	}
	return c.publish(ctx, map[string]func(io.Writer) error{c.out: write}, []string{c.out})
}

// fileWriter writes part of the weights as one file.
func (c *conversion) fileWriter(w *weights, part *tensor.StateDict, path string) (func(io.Writer) error, error) {
	if err := noMeta(part); err != nil && c.options.To == Safetensors {
		return nil, err
	}
	if c.options.To == Torch {
		return func(out io.Writer) error {
			return torchfile.Write(out, torchfile.ArchiveName(path), stateDictObject(part, w.versions))
		}, nil
	}
	of := &weights{sd: part}
	kept, ties := of.untie()
	w.notes = append(w.notes, of.notes...)
	metadata := map[string]string{"format": "pt"}
	maps.Copy(metadata, w.metadata)
	maps.Copy(metadata, ties)
	return func(out io.Writer) error { return safetensors.Write(out, kept, metadata) }, nil
}

func noMeta(sd *tensor.StateDict) error {
	for _, name := range sd.Names() {
		if t, _ := sd.Get(name); t.Meta {
			return fmt.Errorf("%s is on the meta device: it has a shape and no elements to write", name)
		}
	}
	return nil
}

// stateDictObject is what model.state_dict() is: an OrderedDict, with the
// modules' versions as its attribute _metadata.
func stateDictObject(sd *tensor.StateDict, versions *pyobj.Dict) *pyobj.Dict {
	d := &pyobj.Dict{Kind: pyobj.OrderedDict}
	for _, name := range sd.Names() {
		t, _ := sd.Get(name)
		d.Set(name, t)
	}
	if versions != nil {
		d.State = pyobj.NewDict("_metadata", versions)
	}
	return d
}

// publish writes files in order, then gives them their names in that order.
func (c *conversion) publish(ctx context.Context, writers map[string]func(io.Writer) error, order []string) error {
	for _, path := range order {
		counted := func(w io.Writer) error { return writers[path](&counter{w, c}) }
		if err := c.set.Write(ctx, path, counted); err != nil {
			return err
		}
	}
	if err := c.set.Commit(); err != nil {
		return err
	}
	c.result.Files = append(c.result.Files, order...)
	c.result.Bytes = c.done
	return nil
}

// counter tells the conversion what is written.
type counter struct {
	w io.Writer
	c *conversion
}

func (w *counter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.c.done += int64(n)
	if w.c.options.Progress != nil {
		w.c.options.Progress(w.c.done, max(w.c.total, w.c.done))
	}
	return n, err
}

func sizeOf(sd *tensor.StateDict) int64 {
	total, seen := int64(0), map[string]bool{}
	for _, name := range sd.Names() {
		t, _ := sd.Get(name)
		if view, ok := viewOf(t); ok && !seen[view] {
			seen[view] = true
			total += int64(t.NumElements() * t.DType.Size())
		}
	}
	return total
}

func keysOf[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }
