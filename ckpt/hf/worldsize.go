package hf

import (
	"fmt"
	"slices"
)

// WorldSize is the number of ranks of the run that wrote the checkpoint: the
// manifest's or, in the Trainer's, that of training_args.bin or of the random
// states, one for each rank. It is 0 if nothing tells.
func (c *Checkpoint) WorldSize() (int, error) {
	manifest, err := c.Manifest()
	if err != nil {
		return 0, err
	}
	if manifest != nil {
		return manifest.WorldSize, nil
	}
	args, _, err := c.TrainingArgs()
	if err != nil {
		return 0, err
	}
	if n := args.WorldSize(); n > 0 {
		return n, nil
	}
	names := c.randomStates()
	if slices.Equal(names, []string{SoleRandomStateFile}) {
		return 1, nil
	}
	for rank := range names {
		if !slices.Contains(names, fmt.Sprintf("rng_state_%d.pth", rank)) {
			return 0, nil
		}
	}
	return len(names), nil
}

// Has reports whether the checkpoint has a file of this name.
func (c *Checkpoint) Has(name string) bool {
	there, err := exists(c.path(name))
	return err == nil && there
}
