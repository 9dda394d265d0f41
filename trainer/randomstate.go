package trainer

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"rejoin/ckpt/hf"
	"rejoin/rng"
)

// restoreRandomState takes this rank's own generators, or derives a missing or
// broken one, with a warning: nothing else of the run depends on them.
func (r *run) restoreRandomState(c *hf.Checkpoint) error {
	rank, size := r.group.Rank(), r.group.Size()
	random, err := c.RandomState(rank, size)
	if err == nil {
		r.random = random
		if r.generator, err = rng.FromState(random.CPU); err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %w", filepath.Join(c.Dir(), hf.RandomStateFile(rank, size)), err)
	}
	seed := derivedSeed(r.args.Seed, rank, r.pos.Step)
	name := filepath.Join(c.Dir(), hf.RandomStateFile(rank, size))
	what := err.Error()
	if errors.Is(err, hf.ErrNoRandomState) {
		what = name + " is missing" + others(err)
	}
	r.warnf("%s: rank %d's random state is derived from seed %d, rank %d and step %d", what, rank, r.args.Seed, rank, r.pos.Step)
	r.generator = rng.New(seed)
	r.random = hf.NewRandomState(r.generator.State(), uint32(seed), uint32(seed))
	return nil
}

// others lists the random states that are there instead of a missing one.
func others(err error) string {
	if missing := (*hf.MissingRandomStateError)(nil); errors.As(err, &missing) && len(missing.Found) > 0 {
		return " (the checkpoint has " + strings.Join(missing.Found, ", ") + ")"
	}
	return ""
}

// derivedSeed mixes seed, rank and step into one seed (splitmix64's finaliser),
// so that ranks and steps draw unrelated numbers.
func derivedSeed(seed int64, rank, step int) uint64 {
	x := uint64(seed)
	for _, v := range []uint64{uint64(rank), uint64(step)} {
		x += 0x9e3779b97f4a7c15 + v
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}
