package hf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// Options say how to read a checkpoint.
type Options struct {
	// MapLocation decides where the optimizer's tensors go; nil is [tensor.CPU].
	// transformers up to 5.17 gives its device to optimizer.pt alone: weights,
	// schedule and random state always load as plain CPU.
	MapLocation tensor.MapLocation
	// Without names files that the caller will not read: they need not be there,
	// and Digest leaves them out.
	Without []string
}

// A Checkpoint is a directory that the Trainer or a [Writer] wrote. Files are
// opened when asked for. Its methods may be called by several goroutines.
//
// Tensors may be views of mapped files: they are valid until Close.
type Checkpoint struct {
	dir         string
	step        int
	mapLocation tensor.MapLocation
	without     []string

	mu   sync.Mutex
	open []io.Closer       // guarded by mu
	tags map[string]int    // of the torch files read so far; guarded by mu
	bad  []string          // records of theirs that have changed; guarded by mu
	ties map[string]string // that the weights' files recorded; guarded by mu
}

// Open opens the checkpoint directory dir. It fails with a
// *[NotCheckpointError] if dir holds none of a checkpoint's files; what is
// wrong with one of them, the method that reads it tells, with a *[FileError].
func Open(dir string, opts Options) (*Checkpoint, error) {
	if err := looksLikeCheckpoint(dir); err != nil {
		return nil, err
	}
	c := &Checkpoint{dir: dir, mapLocation: opts.MapLocation, without: opts.Without}
	if c.mapLocation == nil {
		c.mapLocation = tensor.CPU
	}
	if state, err := c.State(); err == nil {
		c.step = state.GlobalStep()
	} else {
		c.step, _ = StepOfName(filepath.Base(filepath.Clean(dir)))
	}
	return c, nil
}

// IsCheckpoint reports whether dir is a directory with at least one of a
// checkpoint's own files; [Complete] says whether it has all.
func IsCheckpoint(dir string) bool { return looksLikeCheckpoint(dir) == nil }

func looksLikeCheckpoint(dir string) error {
	entries, err := os.ReadDir(dir)
	switch info, statErr := os.Stat(dir); {
	case errors.Is(statErr, os.ErrNotExist):
		return &NotCheckpointError{dir, "there is no such directory"}
	case statErr == nil && !info.IsDir():
		return &NotCheckpointError{dir, "it is a file"}
	case err != nil:
		return fileError(dir, err)
	case len(entries) == 0:
		return &NotCheckpointError{dir, "the directory is empty"}
	}
	for _, entry := range entries {
		if name := entry.Name(); name == OptimizerFile || name == StateFile || isWeightsFile(name) {
			return nil
		}
	}
	return &NotCheckpointError{dir, "it holds none of a checkpoint's files"}
}

func isWeightsFile(name string) bool {
	for _, f := range weightsFiles {
		if f.name == name {
			return true
		}
	}
	return false
}

// Dir is the directory as it was given.
func (c *Checkpoint) Dir() string { return c.dir }

// Step is the number of optimizer steps done: the state's global_step or, when
// that cannot be read, the number in the directory's name, or 0.
func (c *Checkpoint) Step() int { return c.step }

func (c *Checkpoint) path(name string) string { return filepath.Join(c.dir, name) }

// keep closes f together with the checkpoint.
func (c *Checkpoint) keep(f io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, f)
}

// note counts the device tags of a torch file.
func (c *Checkpoint) note(f *torchfile.File) error {
	changed, err := f.CheckCRC(context.Background())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tags == nil {
		c.tags = map[string]int{}
	}
	for tag, n := range f.Tags() {
		c.tags[tag] += n
	}
	for _, fault := range changed {
		c.bad = append(c.bad, f.Path+": "+fault)
	}
	return nil
}

// Changed has a sentence for each record of the torch files read so far whose
// bytes are not those that were written: it loads, with wrong numbers.
func (c *Checkpoint) Changed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.bad)
}

// Tags counts the storages of the torch files read so far by the device tag
// that they were saved with; see [tensor.ForeignTags].
func (c *Checkpoint) Tags() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.tags)
}

// Ties maps the names that the weights' safetensors files left out to the keys
// that hold the same tensors, as those files' metadata records it. It is known
// once Weights has been called.
func (c *Checkpoint) Ties() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.ties)
}

// Close closes all files: tensors that were read must not be used any more.
func (c *Checkpoint) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, f := range c.open {
		errs = append(errs, f.Close())
	}
	c.open = nil
	return errors.Join(errs...)
}

// Optimizer is the state_dict of optimizer.pt, under the options' MapLocation.
// Its refusal of a location is a *[tensor.LocationError].
func (c *Checkpoint) Optimizer() (*pyobj.Dict, error) {
	return c.torchDict(OptimizerFile, c.mapLocation)
}

// Scheduler is the state_dict of scheduler.pt.
func (c *Checkpoint) Scheduler() (*pyobj.Dict, error) {
	return c.torchDict(SchedulerFile, tensor.CPU)
}

// torchDict reads a torch.save file that holds a dict.
func (c *Checkpoint) torchDict(name string, location tensor.MapLocation) (*pyobj.Dict, error) {
	path := c.path(name)
	if _, err := fileSize(path); err != nil {
		return nil, err
	}
	f, err := torchfile.Open(path, torchfile.Options{MapLocation: location})
	if refused := (*tensor.LocationError)(nil); errors.As(err, &refused) {
		return nil, fmt.Errorf("%s: %w", path, refused)
	} else if err != nil {
		return nil, fileError(path, err)
	}
	c.keep(f)
	if err := c.note(f); err != nil {
		return nil, fileError(path, err)
	}
	d, err := pyobj.AsDict(f.Object())
	if err != nil {
		return nil, fileError(path, err)
	}
	return d, nil
}

// State is trainer_state.json.
func (c *Checkpoint) State() (*TrainerState, error) {
	path := c.path(StateFile)
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	state, err := DecodeTrainerState(data)
	if err != nil {
		return nil, fileError(path, err)
	}
	return state, nil
}

// Manifest is manifest.json, or nil if the checkpoint has none, as those of
// the Trainer.
func (c *Checkpoint) Manifest() (*Manifest, error) {
	path := c.path(ManifestFile)
	if there, err := exists(path); err != nil || !there {
		return nil, err
	}
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	m, err := DecodeManifest(data)
	if err != nil {
		return nil, fileError(path, err)
	}
	return m, nil
}

// Companions are the files that describe the model and its text processing
// (config.json, model.yaml, a tokenizer's …), by name. Give them to [Contents]
// to carry them on.
func (c *Checkpoint) Companions() (map[string][]byte, error) {
	found := map[string][]byte{}
	for _, name := range companionFiles {
		there, err := exists(c.path(name))
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		if found[name], err = readFile(c.path(name)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// TrainingArgsBytes are the bytes of training_args.bin, to carry them on;
// false if there is none.
func (c *Checkpoint) TrainingArgsBytes() ([]byte, bool, error) {
	path := c.path(TrainingArgsFile)
	if there, err := exists(path); err != nil || !there {
		return nil, false, err
	}
	data, err := readFile(path)
	return data, err == nil, err
}

// TrainingArgs are the arguments in training_args.bin, read as data; false if
// there is none.
func (c *Checkpoint) TrainingArgs() (Arguments, bool, error) {
	data, there, err := c.TrainingArgsBytes()
	if err != nil || !there {
		return nil, false, err
	}
	args, err := DecodeTrainingArgs(data)
	if err != nil {
		return nil, false, fileError(c.path(TrainingArgsFile), err)
	}
	return args, true, nil
}

// escapeGlob makes a path match itself alone.
func escapeGlob(path string) string {
	var out []rune
	for _, r := range path {
		if slices.Contains([]rune(`*?[\`), r) {
			out = append(out, '\\')
		}
		out = append(out, r)
	}
	return string(out)
}
