package hf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Rotation says which checkpoints of a run directory are to stay.
type Rotation struct {
	Limit   int    // whole checkpoints to keep, at least 1
	Written int    // step of the one just written, which always stays
	Best    string // the state's best_model_checkpoint, which stays too; "" for none
}

// Rotated is what [Rotate] did.
type Rotated struct {
	Removed []string // by step
	Left    []Left
}

// Left is a checkpoint-N that a rotation did not touch or could not remove, and why.
type Left struct {
	Path   string
	Reason error
}

func (l Left) String() string { return fmt.Sprintf("%s is left: %v", l.Path, l.Reason) }

var (
	errLink      = errors.New("it is a symbolic link")
	errLinked    = errors.New("a symbolic link beside it points to it")
	errNotProven = errors.New("older checkpoints stay, as the newest is not whole")
)

// Rotate removes the oldest whole checkpoints of dir, by step and never by time,
// until Limit are left. What it does not remove: the one just written, the best
// one, and anything named checkpoint-N that is not a whole checkpoint or not a
// plain directory, which is neither touched nor counted. It first makes sure
// that the one just written is whole, else nothing is removed.
//
// A checkpoint loses its name before its files, so that a name is always a
// whole checkpoint; [Recover] ends a removal that was interrupted.
func Rotate(dir string, keep Rotation) Rotated {
	return rotate(systemDisk(), dir, keep)
}

func rotate(d disk, dir string, keep Rotation) Rotated {
	written := filepath.Join(dir, DirName(keep.Written))
	if err := Complete(written); err != nil {
		return Rotated{Left: []Left{{written, fmt.Errorf("%w: %w", errNotProven, err)}}}
	}
	all, err := candidates(dir)
	if err != nil {
		return Rotated{Left: []Left{{dir, err}}}
	}
	var result Rotated
	var whole []Found
	linked := linkTargets(all)
	for _, c := range all {
		if _, named := StepOfName(filepath.Base(c.path)); !named {
			continue // a leftover, which Recover judges
		}
		if reason := untouchable(c, linked); reason != nil {
			result.Left = append(result.Left, Left{c.path, reason})
			continue
		}
		whole = append(whole, Found{c.step, c.path})
	}
	best := FindBest(keep.Best, dir)
	isBest := func(f Found) bool { return best != "" && sameFile(best, f.Path) }
	for _, f := range surplus(whole, keep.Limit, keep.Written, isBest) {
		if err := removeCheckpoint(d, dir, f); err != nil {
			result.Left = append(result.Left, Left{f.Path, err})
		} else {
			result.Removed = append(result.Removed, f.Path)
		}
	}
	return result
}

// surplus decides what goes, the lowest step first: everything over limit, but
// neither the one written nor the best.
func surplus(whole []Found, limit, written int, isBest func(Found) bool) []Found {
	excess := len(whole) - max(1, limit)
	var gone []Found
	byStep := slices.Clone(whole)
	slices.SortFunc(byStep, func(a, b Found) int { return a.Step - b.Step })
	for _, f := range byStep {
		if len(gone) < excess && f.Step != written && !isBest(f) {
			gone = append(gone, f)
		}
	}
	return gone
}

// untouchable says why c is no checkpoint to remove; nil if it is one.
func untouchable(c candidate, linked []string) error {
	if info, err := os.Lstat(c.path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return errLink
	}
	if c.reason != nil {
		return c.reason
	}
	if slices.ContainsFunc(linked, func(target string) bool { return sameFile(target, c.path) }) {
		return errLinked
	}
	return Complete(c.path)
}

// linkTargets lists the candidates that are symbolic links; as paths they lead
// to their targets.
func linkTargets(all []candidate) (links []string) {
	for _, c := range all {
		if info, err := os.Lstat(c.path); err == nil && info.Mode()&os.ModeSymlink != 0 {
			links = append(links, c.path)
		}
	}
	return links
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// removeCheckpoint takes a checkpoint's name away, and then removes it.
func removeCheckpoint(d disk, dir string, f Found) error {
	lock, err := d.lock(f.Path)
	switch {
	case err == nil:
		defer lock.Close()
	case errors.Is(err, errLocked):
		return err
	case !errors.Is(err, errNoLock):
		return removeError(err)
	}
	hidden := temporaryName(dir, "removed", f.Step)
	if err := d.rename(f.Path, hidden); err != nil {
		return removeError(err)
	}
	if err := errors.Join(d.syncDir(dir), d.removeAll(hidden)); err != nil {
		return fmt.Errorf("its name is gone, but not all of it, under %s: %w", hidden, removeError(err))
	}
	return nil
}

// removeError says once what the system said, without paths that stand beside it.
func removeError(err error) error {
	var link *os.LinkError
	var path *os.PathError
	switch {
	case errors.As(err, &link):
		err = link.Err
	case errors.As(err, &path):
		err = path.Err
	}
	return fmt.Errorf("it cannot be removed: %w", err)
}

// FindBest finds the checkpoint that a state's best_model_checkpoint names: where
// it says or, since run directories are moved, under its base name in one of
// dirs. It returns "" if there is none any more.
func FindBest(stored string, dirs ...string) string {
	if stored == "" {
		return ""
	}
	if IsCheckpoint(stored) {
		return stored
	}
	base := filepath.Base(stored)
	if _, ok := StepOfName(base); !ok {
		return ""
	}
	for _, dir := range dirs {
		if path := filepath.Join(dir, base); IsCheckpoint(path) {
			return path
		}
	}
	return ""
}
