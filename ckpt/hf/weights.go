package hf

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"rejoin/ckpt/hf/pyjson"
	"rejoin/ckpt/names"
	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// Weights is the model's state_dict, from model.safetensors or
// pytorch_model.bin, whole or in shards. Every tag loads as plain CPU.
func (c *Checkpoint) Weights() (*tensor.StateDict, error) {
	name, index, err := c.weightsFile()
	if err != nil {
		return nil, err
	}
	if index {
		return c.shardedWeights(name)
	}
	return c.weightsFrom(name)
}

// weightsFile finds the file that the weights start from.
func (c *Checkpoint) weightsFile() (name string, index bool, err error) {
	for _, f := range weightsFiles {
		there, err := exists(c.path(f.name))
		if err != nil {
			return "", false, err
		}
		if there {
			return f.name, f.index, nil
		}
	}
	return "", false, c.noWeights()
}

// noWeights says what stands in the place of weights, if something known does.
func (c *Checkpoint) noWeights() error {
	e := &FileError{Path: c.path(SafeWeightsFile), Problem: Missing, Next: nextStep(SafeWeightsFile)}
	found, _ := filepath.Glob(filepath.Join(escapeGlob(c.dir), "*_model*"))
	for _, path := range found {
		switch base := filepath.Base(path); {
		case strings.HasPrefix(base, "adapter_model"):
			e.Err = fmt.Errorf("%s holds a PEFT adapter, not the weights of a whole model", base)
			e.Next = "merge the adapter into its model first"
		case strings.HasPrefix(base, "pytorch_model_fsdp"):
			e.Err = fmt.Errorf("%s is FSDP's sharded format", base)
			e.Next = "save it with a full state dict first"
		}
	}
	return e
}

// weightsFrom reads one file of weights.
func (c *Checkpoint) weightsFrom(name string) (*tensor.StateDict, error) {
	path := c.path(name)
	if _, err := fileSize(path); err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, ".safetensors") {
		f, err := safetensors.Open(path)
		if err != nil {
			return nil, fileError(path, err)
		}
		c.keep(f)
		if other := f.Unsupported(); len(other) > 0 {
			return nil, &FileError{
				Path: path, Problem: Unsupported, Next: "convert the weights to another dtype",
				Err: fmt.Errorf("tensor %q has dtype %s", other[0].Name, other[0].DType),
			}
		}
		c.noteTies(names.RecordedTies(f.Metadata(), f.StateDict()))
		return f.StateDict(), nil
	}
	f, err := torchfile.Open(path, torchfile.Options{MapLocation: tensor.CPU})
	if err != nil {
		return nil, fileError(path, err)
	}
	c.keep(f)
	if err := c.note(f); err != nil {
		return nil, fileError(path, err)
	}
	weights, err := stateDictOf(f.Object())
	if err != nil {
		return nil, fileError(path, err)
	}
	return weights, nil
}

func (c *Checkpoint) noteTies(ties map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ties == nil {
		c.ties = map[string]string{}
	}
	maps.Copy(c.ties, ties)
}

// stateDictOf turns a dict of names and tensors into a state dict.
func stateDictOf(v any) (*tensor.StateDict, error) {
	d, err := pyobj.AsDict(v)
	if err != nil {
		return nil, err
	}
	weights := tensor.NewStateDict()
	for _, entry := range d.Entries() {
		name, ok := entry.Key.(string)
		if !ok {
			return nil, fmt.Errorf("expected the name of a tensor, found %s %v", pyobj.TypeName(entry.Key), entry.Key)
		}
		t, err := pyobj.AsTensor(entry.Value)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", name, err)
		}
		weights.Set(name, t)
	}
	return weights, nil
}

// shardedWeights reads all shards that an index names and checks that each
// holds exactly what the index says.
func (c *Checkpoint) shardedWeights(indexName string) (*tensor.StateDict, error) {
	shardOf, err := c.shardIndex(indexName)
	if err != nil {
		return nil, err
	}
	weights := tensor.NewStateDict()
	for _, shard := range slices.Compact(slices.Sorted(maps.Values(shardOf))) {
		part, err := c.weightsFrom(shard)
		if err != nil {
			return nil, err
		}
		for _, name := range part.Names() {
			if shardOf[name] != shard {
				return nil, c.shardError(shard, "it holds %q, which %s does not place there", name, indexName)
			}
			t, _ := part.Get(name)
			weights.Set(name, t)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shardOf)) {
		if _, ok := weights.Get(name); !ok {
			return nil, c.shardError(shardOf[name], "%q is missing, which %s places there", name, indexName)
		}
	}
	return weights, nil
}

func (c *Checkpoint) shardError(shard, format string, args ...any) error {
	path := c.path(shard)
	return &FileError{Path: path, Problem: Mismatched, Next: nextStep(path), Err: fmt.Errorf(format, args...)}
}

// shardIndex is the weight_map of an index: tensor name to file name.
func (c *Checkpoint) shardIndex(name string) (map[string]string, error) {
	return ReadShardIndex(c.path(name))
}

// ReadShardIndex reads a *.index.json of sharded weights: tensor name to the
// name of the file, beside the index, that holds it.
func ReadShardIndex(path string) (map[string]string, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	shardOf, err := decodeShardIndex(data)
	if err != nil {
		return nil, fileError(path, err)
	}
	return shardOf, nil
}

func decodeShardIndex(data []byte) (map[string]string, error) {
	v, err := pyjson.Decode(data)
	if err != nil {
		return nil, err
	}
	index, _ := v.(map[string]any)
	entries, ok := index["weight_map"].(map[string]any)
	if !ok || len(entries) == 0 {
		return nil, errors.New(`key "weight_map": expected a dict of tensor names and file names`)
	}
	shardOf := make(map[string]string, len(entries))
	for tensorName, v := range entries {
		shard, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("weight_map[%q]: expected a file name, found %s", tensorName, typeName(v))
		}
		if err := checkFileName(shard); err != nil {
			return nil, fmt.Errorf("weight_map[%q]: %w", tensorName, err)
		}
		shardOf[tensorName] = shard
	}
	return shardOf, nil
}
