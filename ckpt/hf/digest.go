package hf

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Digest is one SHA-256, in hex, over names, sizes and contents of the files
// that every rank reads to resume. Ranks compare it: an equal digest means
// that they see the same checkpoint. Random states are left out, as each rank
// reads its own and may lack the others'.
func (c *Checkpoint) Digest(ctx context.Context) (string, error) {
	names, err := c.sharedFiles()
	if err != nil {
		return "", err
	}
	infos := make([]FileInfo, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		group.Go(func() (err error) {
			infos[i], err = hashFile(ctx, c.path(name))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	sum := sha256.New()
	for i, name := range names {
		fmt.Fprintf(sum, "%q %d %s\n", name, infos[i].Size, infos[i].SHA256)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// sharedFiles are the names of the files there that all ranks read, sorted.
func (c *Checkpoint) sharedFiles() ([]string, error) {
	weights, index, err := c.weightsFile()
	if err != nil {
		return nil, err
	}
	names := []string{weights}
	if index {
		shardOf, err := c.shardIndex(weights)
		if err != nil {
			return nil, err
		}
		for _, shard := range shardOf {
			names = append(names, shard)
		}
	}
	for _, f := range ResumeFiles {
		there, err := exists(c.path(f.Name))
		if err != nil {
			return nil, err
		}
		if (there || f.Required) && !slices.Contains(c.without, f.Name) {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
