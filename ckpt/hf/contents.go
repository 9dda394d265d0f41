package hf

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// Contents is everything that a checkpoint holds.
type Contents struct {
	Step    int
	Weights *tensor.StateDict
	// Optimizer and Scheduler are the state_dicts.
	Optimizer, Scheduler *pyobj.Dict
	// RandomStates has one for each rank; a single one goes to rng_state.pth.
	RandomStates []*RandomState
	State        *TrainerState
	// TrainingArgs are the bytes of training_args.bin; nil for none.
	TrainingArgs []byte
	// Companions are files written as they are, such as config.json or
	// model.yaml: see [Checkpoint.Companions].
	Companions map[string][]byte
	// Manifest's Step and Files are set by the Writer.
	Manifest Manifest
}

// ContentsError says that the caller gave contents that make no checkpoint.
type ContentsError struct{ Reason string }

func (e *ContentsError) Error() string { return "these contents make no checkpoint: " + e.Reason }

func (c *Contents) check(step int) error {
	reason := ""
	switch {
	case c.Weights == nil, c.Optimizer == nil, c.Scheduler == nil, c.State == nil:
		reason = "the weights, the optimizer, the scheduler or the state are missing"
	case len(c.RandomStates) == 0 || slices.Contains(c.RandomStates, nil):
		reason = "each rank needs a random state"
	case c.Step != step:
		reason = fmt.Sprintf("they are of step %d, the checkpoint of step %d", c.Step, step)
	case c.State.GlobalStep() != step:
		reason = fmt.Sprintf("the state's global_step is %d, the checkpoint's step %d", c.State.GlobalStep(), step)
	case c.Manifest.WorldSize != 0 && c.Manifest.WorldSize != len(c.RandomStates):
		reason = fmt.Sprintf("there are %d random states for %d ranks", len(c.RandomStates), c.Manifest.WorldSize)
	}
	if reason != "" {
		return &ContentsError{reason}
	}
	own := []string{ManifestFile, SafeWeightsFile, TrainingArgsFile, OptimizerFile, SchedulerFile, StateFile}
	for name, data := range c.Companions {
		switch {
		case checkFileName(name) != nil || slices.Contains(own, name) || strings.HasPrefix(name, "rng_state"):
			return &ContentsError{fmt.Sprintf("%q cannot be the name of a companion file", name)}
		case len(data) == 0:
			return &ContentsError{fmt.Sprintf("the companion file %q is empty", name)}
		}
	}
	return nil
}

// part is one file to write.
type part struct {
	name  string
	write func(io.Writer) error
}

// parts lists the files in the Trainer's order: the state is the last, so that
// the Trainer, too, takes what is not whole for unfinished.
func (c *Contents) parts() ([]part, error) {
	state, err := c.State.Encode()
	if err != nil {
		return nil, err
	}
	parts := []part{{SafeWeightsFile, func(w io.Writer) error {
		return safetensors.Write(w, c.Weights, map[string]string{"format": "pt"})
	}}}
	for _, name := range slices.Sorted(maps.Keys(c.Companions)) {
		parts = append(parts, bytesPart(name, c.Companions[name]))
	}
	if c.TrainingArgs != nil {
		parts = append(parts, bytesPart(TrainingArgsFile, c.TrainingArgs))
	}
	parts = append(parts, torchPart(OptimizerFile, c.Optimizer), torchPart(SchedulerFile, c.Scheduler))
	for rank, r := range c.RandomStates {
		parts = append(parts, torchPart(RandomStateFile(rank, len(c.RandomStates)), r.object()))
	}
	return append(parts, bytesPart(StateFile, state)), nil
}

func bytesPart(name string, data []byte) part {
	return part{name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}}
}

// torchPart is a file of torch.save, whose records stand under the file's name
// without its extension.
func torchPart(name string, v any) part {
	prefix := strings.TrimSuffix(name, filepath.Ext(name))
	return part{name, func(w io.Writer) error { return torchfile.Write(w, prefix, v) }}
}

// size is about the number of bytes that the checkpoint takes: every storage
// once, and room for the rest.
func (c *Contents) size() uint64 {
	const slack = 64 << 10
	total := uint64(slack + len(c.TrainingArgs) + len(c.RandomStates)*slack)
	for _, data := range c.Companions {
		total += uint64(len(data))
	}
	for _, name := range c.Weights.Names() {
		t, _ := c.Weights.Get(name)
		total += uint64(t.NumElements() * t.DType.Size())
	}
	return total + storageBytes(c.Optimizer, map[*tensor.Storage]bool{})
}

// storageBytes adds up the storages under v that are not in seen.
func storageBytes(v any, seen map[*tensor.Storage]bool) uint64 {
	switch v := v.(type) {
	case *tensor.Tensor:
		if v.Storage == nil || seen[v.Storage] {
			return 0
		}
		seen[v.Storage] = true
		return uint64(len(v.Storage.Data)) + tensor.Alignment
	case *pyobj.Dict:
		total := uint64(0)
		for _, entry := range v.Entries() {
			total += storageBytes(entry.Value, seen)
		}
		return total
	}
	return 0
}

// defaultParallel is how many files are written at the same time: enough for
// hashing, writing and the disk's confirmation to overlap.
const defaultParallel = 4

// Write writes every file but the manifest and makes each durable. It refuses
// beforehand, with a *[SpaceError], what has no room on the disk. After an
// error call Abort.
func (w *Writer) Write(ctx context.Context, c Contents) error {
	if w.temporary == "" || w.manifest != nil {
		return errors.New("a checkpoint is written once, before it is committed or aborted")
	}
	if err := c.check(w.step); err != nil {
		return err
	}
	parts, err := c.parts()
	if err != nil {
		return err
	}
	w.needed = c.size()
	if free, known := w.disk.free(w.temporary); known && free < w.needed {
		return &SpaceError{Dir: w.outDir, Needed: w.needed, Free: free}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(w.parallel)
	for _, p := range parts {
		group.Go(func() error {
			info, err := w.writeFile(ctx, p.name, p.write)
			if err != nil {
				return err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.files[p.name] = info
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return w.explainFull(err)
	}
	manifest := c.Manifest
	w.manifest = &manifest
	return nil
}

// explainFull adds the needed and the free bytes to an error of a full disk.
func (w *Writer) explainFull(err error) error {
	if !isFull(err) {
		return err
	}
	free, _ := w.disk.free(w.temporary)
	return &SpaceError{Dir: w.outDir, Needed: w.needed, Free: free, Err: err}
}

// writeFile writes one durable file in the temporary directory.
func (w *Writer) writeFile(ctx context.Context, name string, write func(io.Writer) error) (FileInfo, error) {
	path := filepath.Join(w.temporary, name)
	if err := ctx.Err(); err != nil {
		return FileInfo{}, err
	}
	f, err := w.disk.create(path)
	if err != nil {
		return FileInfo{}, writeError(path, err)
	}
	out := &hashingWriter{alive: ctx.Err, to: f, sum: sha256.New()}
	buffered := bufio.NewWriterSize(out, 1<<16)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		if ctx.Err() != nil {
			return FileInfo{}, ctx.Err()
		}
		return FileInfo{}, writeError(path, err)
	}
	return FileInfo{Size: out.size, SHA256: hex.EncodeToString(out.sum.Sum(nil))}, nil
}

// hashingWriter passes bytes on and describes them, until alive says no.
type hashingWriter struct {
	alive func() error
	to    io.Writer
	sum   hash.Hash
	size  int64
}

func (w *hashingWriter) Write(p []byte) (int, error) {
	if err := w.alive(); err != nil {
		return 0, err
	}
	n, err := w.to.Write(p)
	w.sum.Write(p[:n])
	w.size += int64(n)
	return n, err
}
