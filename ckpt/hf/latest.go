package hf

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Found is a checkpoint directory in a run directory, complete or not.
type Found struct {
	Step int
	Path string
}

// Skipped is an entry of a run directory that was not chosen, and why.
type Skipped struct {
	Path   string
	Reason error
}

func (s Skipped) String() string { return fmt.Sprintf("%s skipped: %v", s.Path, s.Reason) }

// NoCheckpointError says that a run directory has no complete checkpoint.
type NoCheckpointError struct {
	Dir     string
	Skipped []Skipped
}

func (e *NoCheckpointError) Error() string {
	if len(e.Skipped) == 0 {
		return fmt.Sprintf("%s holds no checkpoint: expected directories named checkpoint-N; give the directory that a run wrote to", e.Dir)
	}
	lines := make([]string, len(e.Skipped))
	for i, s := range e.Skipped {
		lines[i] = s.String()
	}
	return fmt.Sprintf("%s holds no complete checkpoint (%s); start a new run, or give another directory", e.Dir, strings.Join(lines, "; "))
}

// List lists the checkpoint-N directories in dir by number, complete or not.
// A directory that does not exist holds none.
func List(dir string) ([]Found, error) {
	all, err := candidates(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fileError(dir, err)
	}
	var found []Found
	for _, c := range all {
		if c.reason == nil {
			found = append(found, Found{c.step, c.path})
		}
	}
	slices.Reverse(found)
	return found, nil
}

// candidate is an entry that has to do with a checkpoint; reason is set for
// one that its name or its kind already rules out.
type candidate struct {
	step   int
	path   string
	reason error
}

var (
	errNotDirectory = errors.New("it is not a directory")
	errUnfinished   = errors.New("an unfinished save left it behind")
	errDisplaced    = errors.New("an overwrite that was interrupted left it behind")
)

// candidates lists the entries of dir by number, the highest first.
func candidates(dir string) ([]candidate, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []candidate
	for _, entry := range entries {
		c := candidate{path: filepath.Join(dir, entry.Name())}
		isCheckpoint := false
		if c.step, isCheckpoint = StepOfName(entry.Name()); isCheckpoint {
			// Through a symlink, too.
			if info, err := os.Stat(c.path); err != nil || !info.IsDir() {
				c.reason = errNotDirectory
			}
		} else if m := leftoverName.FindStringSubmatch(entry.Name()); m != nil {
			c.step, _ = numberIn(leftoverName, entry.Name(), 2)
			c.reason = errUnfinished
			if m[1] == "displaced" {
				c.reason = errDisplaced
			}
		} else {
			continue
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.step, a.step), cmp.Compare(a.path, b.path))
	})
	return all, nil
}

// Latest is the newest complete checkpoint in dir, by number, and what was
// skipped before it was found, newest first. If there is none the error is a
// *[NoCheckpointError]. A checkpoint must also pass what is given as also, such
// as a look at its contents. Call [Recover] before, where dir may be written to.
func Latest(dir string, also ...func(path string) error) (path string, skipped []Skipped, err error) {
	all, err := candidates(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil, &NotCheckpointError{dir, "there is no such directory"}
	} else if err != nil {
		return "", nil, fileError(dir, err)
	}
	for _, c := range all {
		if c.reason == nil {
			c.reason = Complete(c.path)
		}
		for _, check := range also {
			if c.reason == nil {
				c.reason = check(c.path)
			}
		}
		if c.reason == nil {
			return c.path, skipped, nil
		}
		skipped = append(skipped, Skipped{c.path, c.reason})
	}
	return "", skipped, &NoCheckpointError{Dir: dir, Skipped: skipped}
}

// Complete returns nil if dir holds everything that a resume needs: weights,
// optimizer, schedule and state that can be opened, a step that fits the
// directory's name and, if there is a manifest, all of its files in their
// sizes. Random states are not asked for without one, as they can be derived.
// It reads headers, not whole tensors: see [Checkpoint.Verify] for that.
func Complete(dir string) error {
	c, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	err = c.complete()
	return errors.Join(err, c.Close())
}

func (c *Checkpoint) complete() error {
	state, err := c.State()
	if err != nil {
		return err
	}
	abs, err := filepath.Abs(c.dir)
	if err != nil {
		return err
	}
	if step, ok := StepOfName(filepath.Base(abs)); ok && step != state.GlobalStep() {
		return &FileError{
			Path: c.path(StateFile), Problem: Mismatched, Next: nextStep(StateFile),
			Err: fmt.Errorf("global_step %d expected from the directory's name, found %d", step, state.GlobalStep()),
		}
	}
	m, err := c.Manifest()
	if err != nil {
		return err
	}
	if m != nil {
		if err := m.checkSizes(c.dir); err != nil {
			return err
		}
	}
	if _, err := c.Weights(); err != nil {
		return err
	}
	if _, err := c.Optimizer(); err != nil {
		return err
	}
	_, err = c.Scheduler()
	return err
}
