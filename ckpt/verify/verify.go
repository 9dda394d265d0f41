package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"rejoin/ckpt"
	"rejoin/ckpt/hf"
	"rejoin/ckpt/names"
	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/source"
	"rejoin/ckpt/torchfile"
	"rejoin/tensor"
)

// Problem is one thing that is wrong.
type Problem struct {
	Path    string `json:"path"`
	Where   string `json:"where,omitempty"` // such as "key fc.weight"
	Problem string `json:"problem"`
	Next    string `json:"next"`
}

func (p Problem) String() string {
	text := p.Path + ": "
	if p.Where != "" {
		text += p.Where + ": "
	}
	text += p.Problem
	if p.Next != "" {
		text += "; " + p.Next
	}
	return text
}

// Result is what was found. Its JSON keys are stable.
type Result struct {
	Path string `json:"path"`
	OK   bool   `json:"ok"`
	// Checked lists what was looked at and is in order, Unchecked what could not
	// be, and why.
	Checked   []string  `json:"checked"`
	Unchecked []string  `json:"unchecked"`
	Problems  []Problem `json:"problems"`
	Notes     []string  `json:"notes,omitempty"`
}

// Model is what the caller makes of a model's description: it takes the weights
// and computes with them once. The error says what does not fit.
type Model func(description string, weights *tensor.StateDict, ties map[string]string) error

// Options say what to check beyond structure and checksums.
type Options struct {
	Finite bool // every floating-point element is a number
	// Description is a model.yaml; "" is the checkpoint's own, if it has one.
	Description string
	// Forward runs a forward pass; nil leaves that out.
	Forward Model
	// Progress, if set, is told how many bytes of total are read.
	Progress func(done, total int64)
}

// Verify checks the checkpoint at path. Its error is that of ctx; all else is in
// the result.
func Verify(ctx context.Context, path string, o Options) (*Result, error) {
	v := &verifier{options: o, result: &Result{Path: path, Checked: []string{}, Unchecked: []string{}, Problems: []Problem{}}, broken: map[string]bool{}}
	s, err := source.Open(path, ckpt.Options{})
	if err != nil {
		v.fail(path, err)
		return v.result, nil
	}
	defer func() { _ = s.Close() }() // read only
	v.result.Path, v.result.Notes = s.Path, s.Notes
	for _, step := range []func(context.Context, *source.Source) error{v.parts, v.directory, v.checksums, v.finite, v.forward} {
		if err := step(ctx, s); err != nil {
			return nil, err
		}
	}
	v.result.OK = len(v.result.Problems) == 0
	return v.result, nil
}

type verifier struct {
	options Options
	result  *Result
	broken  map[string]bool // paths with a problem
}

func (v *verifier) add(p Problem) {
	v.broken[p.Path] = true
	v.result.Problems = append(v.result.Problems, p)
}

func (v *verifier) checked(format string, args ...any) {
	v.result.Checked = append(v.result.Checked, fmt.Sprintf(format, args...))
}

func (v *verifier) unchecked(format string, args ...any) {
	v.result.Unchecked = append(v.result.Unchecked, fmt.Sprintf(format, args...))
}

// fail turns an error into problems: one for each that it joins.
func (v *verifier) fail(path string, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			v.fail(path, e)
		}
		return
	}
	p := problemOf(path, err)
	if v.broken[p.Path] && p.Path != v.result.Path {
		return // one cause, met again on another way
	}
	v.add(p)
}

// problemOf takes an error apart into file, cause and next step.
func problemOf(path string, err error) Problem {
	p := Problem{Path: path, Next: "use another checkpoint, or copy it again"}
	text := err.Error()
	var file *hf.FileError
	var torch *torchfile.FormatError
	var safe *safetensors.FormatError
	var global *torchfile.UnsupportedGlobalError
	var state *ckpt.StateDictError
	var directory *hf.NotCheckpointError
	switch {
	case errors.As(err, &file):
		p.Path, p.Next = file.Path, file.Next
		text = strings.TrimPrefix(file.Error(), file.Path+" ")
	case errors.As(err, &torch):
		p.Path, p.Next, p.Where = torch.Path, torch.Next, torch.Where
		text = strings.TrimPrefix(strings.TrimPrefix(torch.Error(), torch.Path+": "), torch.Where+": ")
	case errors.As(err, &safe):
		p.Path, p.Next, p.Where = safe.Path, safe.Next, safe.Where
		text = strings.TrimPrefix(strings.TrimPrefix(safe.Error(), safe.Path+": "), safe.Where+": ")
	case errors.As(err, &global):
		p.Next = "use a checkpoint that holds plain data"
	case errors.As(err, &state):
		p.Next = state.Next
	case errors.As(err, &directory):
		p.Path, p.Next, text = directory.Path, "give a checkpoint-N directory, or a directory that holds some", directory.Reason
	case errors.Is(err, fs.ErrNotExist), strings.Contains(text, "does not exist"):
		p.Next = "check the path"
	}
	text = strings.TrimPrefix(text, p.Path+": ")
	p.Problem = strings.TrimSuffix(text, "; "+p.Next)
	return p
}

// parts looks at whether every file could be read.
func (v *verifier) parts(_ context.Context, s *source.Source) error {
	readable := 0
	for _, p := range s.Parts {
		if p.Err != nil {
			v.fail(p.Path, p.Err)
			continue
		}
		readable++
		if c := p.Checkpoint; c != nil {
			for _, w := range c.Warnings {
				v.result.Notes = append(v.result.Notes, p.Name+": "+w)
			}
			if t := c.Torch(); t != nil && t.ByteOrder == "big" {
				v.result.Notes = append(v.result.Notes, p.Name+": it was written big-endian; its elements are turned round when read")
			}
		}
	}
	v.checked("structure of %d files", readable)
	if s.Kind == source.File {
		return nil
	}
	for _, err := range s.IndexProblems() {
		p := problemOf(s.Path, err)
		v.add(p)
	}
	return nil
}

// directory holds a checkpoint directory to what a resume needs, and to its manifest.
func (v *verifier) directory(ctx context.Context, s *source.Source) error {
	if s.Kind != source.Directory {
		return nil
	}
	c, err := hf.Open(s.Path, hf.Options{})
	if err != nil {
		v.fail(s.Path, err)
		return nil
	}
	defer c.Close()
	if err := hf.Complete(s.Path); err != nil {
		v.fail(s.Path, err)
	} else {
		v.checked("all that a resume needs is there")
	}
	v.randomStates(c)
	if _, _, err := c.TrainingArgs(); err != nil {
		v.fail(s.Path, err)
	}
	manifest, err := c.Manifest()
	switch {
	case err != nil:
		v.fail(s.Path, err)
	case manifest == nil:
		v.unchecked("hashes of the files: there is no %s, as in a checkpoint of the Trainer", hf.ManifestFile)
	default:
		if err := c.Verify(ctx); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			v.fail(s.Path, err)
		} else {
			v.checked("sizes and SHA-256 of %d files against %s", len(manifest.Files), hf.ManifestFile)
		}
	}
	return nil
}

// randomStates reads every rank's. Missing ones can be derived, so they are no problem.
func (v *verifier) randomStates(c *hf.Checkpoint) {
	size, err := c.WorldSize()
	if err != nil || size == 0 {
		return
	}
	read := 0
	for rank := range size {
		_, err := c.RandomState(rank, size)
		switch {
		case errors.Is(err, hf.ErrNoRandomState):
			v.unchecked("%v", err)
		case err != nil:
			v.fail(c.Dir(), err)
		default:
			read++
		}
	}
	v.checked("random states of %d of %d ranks", read, size)
}

// checksums compares the CRC-32 of every record of torch's zip files.
func (v *verifier) checksums(ctx context.Context, s *source.Source) error {
	for _, p := range s.Parts {
		if p.Checkpoint == nil {
			continue
		}
		t := p.Checkpoint.Torch()
		if t == nil || t.Format != torchfile.Zip {
			v.unchecked("checksums of %s: %s files have none", p.Name, p.Checkpoint.Format)
			continue
		}
		without := 0
		for _, r := range t.Records() {
			if r.CRC32 == 0 && r.Size > 0 {
				without++
			}
		}
		if without > 0 {
			v.unchecked("checksums of %d records of %s: they were not written", without, p.Name)
		}
		faults, err := t.CheckCRC(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			v.fail(p.Path, err)
		}
		for _, fault := range faults {
			where, problem, _ := strings.Cut(fault, ": ")
			v.add(Problem{Path: p.Path, Where: where, Problem: problem, Next: "copy the file again: torch loads it without a word, with wrong numbers"})
		}
		if err == nil && len(faults) == 0 && without == 0 {
			v.checked("checksums of %d records of %s", len(t.Records()), p.Name)
		}
	}
	return nil
}

// forward gives the weights to the model and computes with them.
func (v *verifier) forward(_ context.Context, s *source.Source) error {
	if v.options.Forward == nil {
		return nil
	}
	description := v.options.Description
	if description == "" {
		description = ownDescription(s)
	}
	if description == "" {
		v.unchecked("a forward pass: the checkpoint does not say what model it is of; describe it with --model FILE.yaml")
		return nil
	}
	sd, _, err := s.Model()
	if err != nil {
		v.fail(s.Path, err)
		return nil
	}
	if err := v.options.Forward(description, sd, names.RecordedTies(s.Metadata(), sd)); err != nil {
		next := "use the model description that the weights were trained with"
		if mismatch := (*names.MismatchError)(nil); errors.As(err, &mismatch) {
			next = mismatch.Next()
		}
		v.add(Problem{Path: s.Path, Where: "forward pass", Problem: strings.TrimSuffix(err.Error(), "\n"+next), Next: next})
		return nil
	}
	v.checked("a forward pass with a dummy input")
	return nil
}

// ownDescription is the model.yaml in a directory's manifest.
func ownDescription(s *source.Source) string {
	if s.Kind != source.Directory {
		return ""
	}
	c, err := hf.Open(s.Path, hf.Options{})
	if err != nil {
		return ""
	}
	defer c.Close()
	if m, err := c.Manifest(); err == nil && m != nil && m.ModelYAML != "" {
		return m.ModelYAML
	}
	companions, err := c.Companions()
	if err != nil {
		return ""
	}
	return string(companions[hf.ModelFile])
}
