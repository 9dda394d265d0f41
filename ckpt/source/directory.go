package source

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rejoin/ckpt"
	"rejoin/ckpt/hf"
)

// openDirectory opens a checkpoint directory, or the newest of a run's.
func openDirectory(dir string, o ckpt.Options) (*Source, error) {
	s := &Source{Path: dir, Kind: Directory}
	if !hf.IsCheckpoint(dir) {
		newest, skipped, err := hf.Latest(dir)
		if none := (*hf.NoCheckpointError)(nil); errors.As(err, &none) && len(none.Skipped) == 0 {
			return nil, &hf.NotCheckpointError{Path: dir, Reason: "it holds none of a checkpoint's files"}
		}
		if err != nil {
			return nil, err
		}
		for _, sk := range skipped {
			s.Notes = append(s.Notes, sk.String())
		}
		s.Notes = append(s.Notes, fmt.Sprintf("%s is the newest complete checkpoint of %s", newest, dir))
		s.Path = newest
	}
	entries, err := os.ReadDir(s.Path)
	if err != nil {
		return nil, err
	}
	var indexes []string
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		path := filepath.Join(s.Path, e.Name())
		switch role, known := roleOf(e.Name()); {
		case strings.HasSuffix(e.Name(), ".index.json"):
			indexes = append(indexes, path)
		case known:
			s.Parts = append(s.Parts, openPart(path, role, o))
		}
	}
	for _, path := range indexes {
		if err := s.addShards(path, o); err != nil {
			s.Parts = append(s.Parts, &Part{Name: filepath.Base(path), Path: path, Role: Text, Err: err})
		}
	}
	s.keepOneForm()
	slices.SortStableFunc(s.Parts, func(a, b *Part) int { return int(a.order()) - int(b.order()) })
	return s, nil
}

// keepOneForm leaves the weights that a resume would take, where a directory
// holds them in two forms, and says so.
func (s *Source) keepOneForm() {
	whole := func(p *Part) bool { return p.Name == hf.SafeWeightsFile }
	if !slices.ContainsFunc(s.Parts, whole) {
		return
	}
	s.Parts = slices.DeleteFunc(s.Parts, func(p *Part) bool {
		if p.Role != Weights || whole(p) {
			return false
		}
		s.Notes = append(s.Notes, fmt.Sprintf("%s is left aside: %s is what a resume takes", p.Name, hf.SafeWeightsFile))
		if p.Checkpoint != nil {
			_ = p.Checkpoint.Close() // read only
		}
		return true
	})
	s.index = nil
}

// order puts weights first and descriptions last.
func (p *Part) order() Role {
	if p.Role == Other {
		return Text
	}
	return p.Role
}

// roleOf tells what a file of a checkpoint directory is by its name; shards are
// found by their index.
func roleOf(name string) (Role, bool) {
	switch name {
	case hf.SafeWeightsFile, hf.BinWeightsFile:
		return Weights, true
	case hf.OptimizerFile:
		return Optimizer, true
	case hf.SchedulerFile:
		return Schedule, true
	case hf.TrainingArgsFile:
		return Arguments, true
	case hf.StateFile, hf.ConfigFile, hf.GenerationConfigFile, hf.ManifestFile:
		return Text, true
	case "scaler.pt":
		return Other, true
	}
	return RandomState, strings.HasPrefix(name, "rng_state") && strings.HasSuffix(name, ".pth")
}

// openShards opens a shard index by itself.
func openShards(path string, o ckpt.Options) (*Source, error) {
	s := &Source{Path: path, Kind: Shards}
	if err := s.addShards(path, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Source) addShards(path string, o ckpt.Options) error {
	index, err := hf.ReadShardIndex(path)
	if err != nil {
		return err
	}
	s.index, s.indexFile = index, path
	for _, name := range slices.Compact(slices.Sorted(maps.Values(index))) {
		s.Parts = append(s.Parts, openPart(filepath.Join(filepath.Dir(path), name), Weights, o))
	}
	return nil
}

// checkIndex holds the shards to their index.
func (s *Source) checkIndex() error { return errors.Join(s.IndexProblems()...) }

// IndexProblems lists where shards and index differ: each is a *[hf.FileError].
func (s *Source) IndexProblems() []error {
	if s.index == nil {
		return nil
	}
	var problems []error
	note := func(path, format string, args ...any) {
		problems = append(problems, &hf.FileError{
			Path: path, Problem: hf.Mismatched, Next: "copy index and shards again, from one and the same model", Err: fmt.Errorf(format, args...),
		})
	}
	there := map[string]bool{}
	base := filepath.Base(s.indexFile)
	for _, p := range s.Parts {
		if p.Role != Weights || p.Err != nil {
			continue
		}
		for _, l := range p.Leaves {
			name := l.Path()
			there[p.Name+"\x00"+name] = true
			if at := s.index[name]; at != p.Name {
				note(p.Path, "it holds %q, which %s places in %q", name, base, at)
			}
		}
	}
	failed := map[string]bool{}
	for _, p := range s.Parts {
		failed[p.Name] = p.Err != nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.index)) {
		shard := s.index[name]
		if !there[shard+"\x00"+name] && !failed[shard] {
			note(filepath.Join(filepath.Dir(s.indexFile), shard), "%q is missing, which %s places there", name, base)
		}
	}
	return problems
}
