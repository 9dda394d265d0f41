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
// reads its own and may lack the others'. A file that is not as the manifest
// lists it is a *[FileError].
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
	if err := c.checkContents(names, infos); err != nil {
		return "", err
	}
	sum := sha256.New()
	for i, name := range names {
		fmt.Fprintf(sum, "%q %d %s\n", name, infos[i].Size, infos[i].SHA256)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// checkContents compares files with what the manifest, if there is one, says of
// them, so that a file that was damaged after it was saved is not trained on.
func (c *Checkpoint) checkContents(names []string, infos []FileInfo) error {
	m, err := c.Manifest()
	if err != nil || m == nil {
		return err
	}
	for i, name := range names {
		if want, listed := m.Files[name]; listed && want != infos[i] {
			return c.mismatch(name, want, infos[i])
		}
	}
	return nil
}

func (c *Checkpoint) mismatch(name string, want, found FileInfo) error {
	e := &FileError{Path: c.path(name), Problem: Mismatched, Next: nextStep(c.path(name))}
	switch {
	case found.Size < want.Size:
		e.Err = fmt.Errorf("it is truncated, %d of the %d bytes that %s lists are there", found.Size, want.Size, ManifestFile)
	case found.Size > want.Size:
		e.Err = fmt.Errorf("%d bytes expected by %s, found %d", want.Size, ManifestFile, found.Size)
	default:
		e.Err = fmt.Errorf("SHA-256 %.16s… expected by %s, found %.16s…: some of its %d bytes have changed", want.SHA256, ManifestFile, found.SHA256, found.Size)
	}
	return e
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
