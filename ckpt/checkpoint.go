package ckpt

import (
	"errors"

	"rejoin/ckpt/internal/mapped"
	"rejoin/ckpt/internal/sniff"
	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/torchfile"
	"rejoin/tensor"
)

// Options say how to open a checkpoint.
type Options struct {
	// MapLocation decides where each storage goes; nil means [tensor.CPU].
	// safetensors files have no device tags.
	MapLocation tensor.MapLocation
	// Describe turns unknown classes in a torch file into opaque objects, and
	// lets [Checkpoint.StateDict] look into a whole pickled module.
	Describe bool
	// CheckCRC adds a warning for every record of a torch file that has changed.
	CheckCRC bool
}

// Checkpoint is an open file. Its tensors are valid until Close.
type Checkpoint struct {
	Path string
	// Format is "zip", "legacy", "tar" or "safetensors".
	Format string
	// Warnings say what is odd about the file, though it could be read.
	Warnings []string

	torch *torchfile.File
	safe  *safetensors.File
	file  *mapped.File
}

// Open maps the file at path and reads what it holds.
func Open(path string, o Options) (*Checkpoint, error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	c, err := Read(m.Data, path, o)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	c.file = m
	return c, nil
}

// Read reads a checkpoint that is in memory; name stands in its errors.
func Read(data []byte, name string, o Options) (*Checkpoint, error) {
	if sniff.Bytes(data) == sniff.Safetensors {
		f, err := safetensors.Read(data, name)
		if err != nil {
			return nil, err
		}
		return &Checkpoint{Path: name, Format: "safetensors", safe: f}, nil
	}
	f, err := torchfile.Read(data, name, torchfile.Options{MapLocation: o.MapLocation, Describe: o.Describe, CheckCRC: o.CheckCRC})
	if err != nil {
		return nil, err
	}
	return &Checkpoint{Path: name, Format: f.Format.String(), Warnings: f.Warnings, torch: f}, nil
}

// Object is what a torch file holds, in package pyobj's values; nil for safetensors.
func (c *Checkpoint) Object() any {
	if c.torch == nil {
		return nil
	}
	return c.torch.Object()
}

// Torch is the torch file, nil if it is none.
func (c *Checkpoint) Torch() *torchfile.File { return c.torch }

// Safetensors is the safetensors file, nil if it is none.
func (c *Checkpoint) Safetensors() *safetensors.File { return c.safe }

// Tags counts a torch file's storages by the device tag they were saved with.
func (c *Checkpoint) Tags() map[string]int {
	if c.torch == nil {
		return nil
	}
	return c.torch.Tags()
}

// Metadata is a safetensors file's metadata, nil if it has none.
func (c *Checkpoint) Metadata() map[string]string {
	if c.safe == nil {
		return nil
	}
	return c.safe.Metadata()
}

// StateDict returns the model's tensors by name, in the order of the file, and
// the key of the wrapper they were found under: "" if they are at the top. The
// error is a [*StateDictError] if there are none.
func (c *Checkpoint) StateDict() (sd *tensor.StateDict, wrapper string, err error) {
	if c.safe != nil {
		return c.safe.StateDict(), "", nil
	}
	sd, wrapper, err = StateDict(c.torch.Object())
	if e := (*StateDictError)(nil); errors.As(err, &e) {
		e.Path = c.Path
	}
	return sd, wrapper, err
}

// Close unmaps the file. Its tensors must not be used any more.
func (c *Checkpoint) Close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}
