package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/torchfile"
)

// Problem is the kind of trouble that a [FileError] reports.
type Problem uint8

// The kinds of trouble.
const (
	Missing     Problem = iota + 1 // no such file
	Empty                          // a file of no bytes
	Damaged                        // cut, or not what it should be
	Mismatched                     // whole, but not the file that the manifest or index describes
	Unreadable                     // the system refuses to read it
	Unsupported                    // whole, but of a kind that is not read here
)

func (p Problem) String() string {
	switch p {
	case Missing:
		return "is missing"
	case Empty:
		return "is empty"
	case Damaged:
		return "is damaged"
	case Mismatched:
		return "does not match"
	case Unreadable:
		return "cannot be read"
	case Unsupported:
		return "is not supported"
	}
	return fmt.Sprintf("Problem(%d)", uint8(p))
}

// FileError is what is wrong with one file of a checkpoint.
type FileError struct {
	Path    string
	Problem Problem
	Next    string // what to do about it
	Err     error  // the cause; nil if Problem says all
}

func (e *FileError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v", e.Path, e.Problem)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %s", e.cause())
	}
	if e.Next != "" {
		fmt.Fprintf(&b, "; %s", e.Next)
	}
	return b.String()
}

// cause is the text of Err without the path and the advice that stand in e's own.
func (e *FileError) cause() string {
	text := strings.TrimPrefix(e.Err.Error(), e.Path+": ")
	torchFormat, safeFormat := (*torchfile.FormatError)(nil), (*safetensors.FormatError)(nil)
	switch {
	case errors.As(e.Err, &torchFormat):
		return strings.TrimSuffix(text, "; "+torchFormat.Next)
	case errors.As(e.Err, &safeFormat):
		return strings.TrimSuffix(text, "; "+safeFormat.Next)
	}
	return text
}

func (e *FileError) Unwrap() error { return e.Err }

// nextSteps is what to do when a file is missing or broken, by its name.
var nextSteps = map[string]string{
	SafeWeightsFile:  "resume from another checkpoint",
	OptimizerFile:    "resume from another checkpoint, or start again from the weights alone with a fresh optimizer",
	SchedulerFile:    "resume from another checkpoint, or start again from the weights alone with a fresh schedule",
	StateFile:        "the save was not finished or the file was lost: resume from another checkpoint",
	TrainingArgsFile: "give the training arguments yourself",
	ManifestFile:     "remove the file to read the directory as the Trainer would, or resume from another checkpoint",
}

func nextStep(path string) string {
	if next, ok := nextSteps[filepath.Base(path)]; ok {
		return next
	}
	return "resume from another checkpoint"
}

// fileError explains err, met while path was read.
func fileError(path string, err error) error {
	if known := (*FileError)(nil); errors.As(err, &known) {
		return err
	}
	e := &FileError{Path: path, Problem: Damaged, Next: nextStep(path), Err: err}
	switch pathErr := (*fs.PathError)(nil); {
	case errors.Is(err, fs.ErrNotExist):
		e.Problem, e.Err = Missing, nil
	case errors.As(err, &pathErr):
		e.Problem, e.Err = Unreadable, pathErr.Err
	}
	return e
}

// NotCheckpointError says that a path is not a checkpoint directory.
type NotCheckpointError struct {
	Path   string
	Reason string
}

func (e *NotCheckpointError) Error() string {
	return fmt.Sprintf("%s is not a checkpoint: %s; give a checkpoint-N directory, or a directory that holds some", e.Path, e.Reason)
}

// MissingRandomStateError says that a rank has no saved random state.
// It matches [ErrNoRandomState].
type MissingRandomStateError struct {
	Path            string // the file that is not there
	Rank, WorldSize int
	Found           []string // the random states that are there
}

// ErrNoRandomState is the kind of a [MissingRandomStateError].
var ErrNoRandomState = errors.New("no saved random state")

func (e *MissingRandomStateError) Error() string {
	found := "the checkpoint holds none"
	if len(e.Found) > 0 {
		found = "the checkpoint holds " + strings.Join(e.Found, ", ")
	}
	return fmt.Sprintf("%s is missing: rank %d of %d has no saved random state (%s); derive one from the seed, or resume with the world size that saved it",
		e.Path, e.Rank, e.WorldSize, found)
}

// Is reports whether target is [ErrNoRandomState].
func (e *MissingRandomStateError) Is(target error) bool { return target == ErrNoRandomState }
