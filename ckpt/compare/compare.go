package compare

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"rejoin/ckpt/names"
	"rejoin/ckpt/source"
	"rejoin/ckpt/tree"
	"rejoin/tensor"
)

// Options say what to compare, and how closely.
type Options struct {
	Tolerance Tolerance
	// Peel compares keys without the stack of wrapper prefixes that every key of
	// a side's model has; see [rejoin/ckpt/names.CommonWrappers].
	Peel bool
	// Progress, if set, is told how many bytes of total have been compared.
	Progress func(done, total int64)
}

// Kind is how an entry differs.
type Kind string

// The kinds. SameValues is a dtype that differs where no value does.
const (
	OnlyA   Kind = "only in a"
	OnlyB   Kind = "only in b"
	Shape   Kind = "shape"
	DType   Kind = "dtype"
	Values  Kind = "values"
	Missing Kind = "unreadable"
)

// Entry is one difference.
type Entry struct {
	File string `json:"file,omitempty"` // of a directory; "weights" for weights in any form
	Key  string `json:"key"`
	Kind Kind   `json:"kind"`
	// A and B describe both sides: a tensor's dtype and shape, or a value.
	A        string      `json:"a,omitempty"`
	B        string      `json:"b,omitempty"`
	Elements int         `json:"elements,omitempty"`
	Diff     *Difference `json:"difference,omitempty"`
}

// Result is how two checkpoints differ. Its JSON keys are stable.
type Result struct {
	A       string   `json:"a"`
	B       string   `json:"b"`
	Equal   bool     `json:"equal"`
	Notes   []string `json:"notes,omitempty"`
	Tensors int      `json:"tensors"` // compared
	Others  int      `json:"others"`  // other values compared
	Entries []Entry  `json:"differences"`
}

// Compare compares two open sources.
func Compare(ctx context.Context, a, b *source.Source, o Options) (*Result, error) {
	c := &comparer{options: o, result: &Result{A: a.Path, B: b.Path, Entries: []Entry{}}}
	c.result.Notes = append(slices.Clone(a.Notes), b.Notes...)
	sectionsA, sectionsB, err := c.sections(a, b)
	if err != nil {
		return nil, err
	}
	for _, s := range sectionsA {
		c.total += s.bytes()
	}
	for _, sa := range sectionsA {
		i := slices.IndexFunc(sectionsB, func(s *section) bool { return s.name == sa.name })
		if i < 0 {
			c.add(Entry{File: sa.name, Kind: OnlyA})
			continue
		}
		if err := c.section(ctx, sa, sectionsB[i]); err != nil {
			return nil, err
		}
	}
	for _, sb := range sectionsB {
		if !slices.ContainsFunc(sectionsA, func(s *section) bool { return s.name == sb.name }) {
			c.add(Entry{File: sb.name, Kind: OnlyB})
		}
	}
	c.result.Equal = len(c.result.Entries) == 0
	return c.result, nil
}

type comparer struct {
	options     Options
	result      *Result
	done, total int64
}

func (c *comparer) add(e Entry) { c.result.Entries = append(c.result.Entries, e) }

// section is what is compared by key: a file, or weights in whatever files.
type section struct {
	name   string
	keys   []string
	leaves map[string]tree.Leaf
	err    error
}

func (s *section) add(key string, l tree.Leaf) {
	if _, twice := s.leaves[key]; twice {
		return // a dict with the keys 1 and "1": the first stands for both
	}
	s.keys = append(s.keys, key)
	s.leaves[key] = l
}

func (s *section) bytes() int64 {
	total := int64(0)
	for _, l := range s.leaves {
		if t := l.Tensor(); t != nil && !t.Meta {
			total += int64(t.NumElements() * t.DType.Size())
		}
	}
	return total
}

// sections pairs what both sides hold: two files by all their keys, directories
// file by file, and a file with a directory or shards by the model's weights.
func (c *comparer) sections(a, b *source.Source) ([]*section, []*section, error) {
	if a.Kind == source.File && b.Kind == source.File && !c.options.Peel {
		return fileSections(a), fileSections(b), nil
	}
	if a.Kind == source.Directory && b.Kind == source.Directory {
		return c.directory(a), c.directory(b), nil
	}
	var both [2][]*section
	for i, s := range []*source.Source{a, b} {
		w, err := c.weights(s)
		if err != nil {
			return nil, nil, err
		}
		w.name = ""
		both[i] = []*section{w}
	}
	return both[0], both[1], nil
}

func fileSections(s *source.Source) []*section {
	return []*section{partSection(s.Parts[0], "")}
}

func partSection(p *source.Part, name string) *section {
	s := &section{name: name, leaves: map[string]tree.Leaf{}, err: p.Err}
	for _, l := range p.Leaves {
		s.add(l.Path(), l)
	}
	return s
}

// weightsName is the section of a directory's weights, in whatever files.
const weightsName = "weights"

func (c *comparer) directory(s *source.Source) []*section {
	var out []*section
	for _, p := range s.Parts {
		switch {
		case p.Role != source.Weights:
			out = append(out, partSection(p, p.Name))
		case !slices.ContainsFunc(out, func(s *section) bool { return s.name == weightsName }):
			w, err := c.weights(s)
			if err != nil {
				w = &section{name: weightsName, err: err}
			}
			out = append(out, w)
		}
	}
	return out
}

// weights is the section of a source's model.
func (c *comparer) weights(s *source.Source) (*section, error) {
	sd, wrapper, err := s.Model()
	if err != nil {
		return nil, err
	}
	if wrapper != "" {
		c.note("%s: the weights are under %q", s.Path, wrapper)
	}
	if stack := names.CommonWrappers(sd.Names()); c.options.Peel && len(stack) > 0 {
		prefix := strings.Join(stack, "")
		c.note("%s: the prefix %q, which every key has, was taken off", s.Path, prefix)
		if sd, err = names.Renamed(sd, func(key string) string { return key[len(prefix):] }); err != nil {
			return nil, err
		}
	}
	out := &section{name: weightsName, leaves: map[string]tree.Leaf{}}
	for _, name := range sd.Names() {
		t, _ := sd.Get(name)
		out.add(name, tree.Leaf{Keys: []string{name}, Value: t})
	}
	for _, p := range s.Parts {
		for _, l := range p.Leaves {
			if _, raw := l.Value.(*source.RawTensor); raw {
				out.add(l.Path(), l)
			}
		}
	}
	return out, nil
}

func (c *comparer) note(format string, args ...any) {
	c.result.Notes = append(c.result.Notes, fmt.Sprintf(format, args...))
}

// section compares two sections key by key, in the order of the first.
func (c *comparer) section(ctx context.Context, a, b *section) error {
	if a.err != nil || b.err != nil {
		e := Entry{File: a.name, Kind: Missing}
		for side, err := range map[*string]error{&e.A: a.err, &e.B: b.err} {
			if err != nil {
				*side = err.Error()
			}
		}
		c.add(e)
		return nil
	}
	for _, key := range a.keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		la := a.leaves[key]
		lb, ok := b.leaves[key]
		if !ok {
			c.add(Entry{File: a.name, Key: key, Kind: OnlyA, A: describe(la)})
			continue
		}
		if err := c.leaf(a.name, key, la, lb); err != nil {
			return err
		}
	}
	for _, key := range b.keys {
		if _, ok := a.leaves[key]; !ok {
			c.add(Entry{File: b.name, Key: key, Kind: OnlyB, B: describe(b.leaves[key])})
		}
	}
	c.hintPrefix(a, b)
	return nil
}

// hintPrefix says when keys would match but for a wrapper's prefix.
func (c *comparer) hintPrefix(a, b *section) {
	for i, s := range []*section{a, b} {
		other := []*section{b, a}[i]
		stack := strings.Join(names.CommonWrappers(s.keys), "")
		if stack == "" || len(s.keys) == 0 {
			continue
		}
		if _, same := other.leaves[s.keys[0]]; same {
			continue
		}
		if _, ok := other.leaves[s.keys[0][len(stack):]]; ok {
			c.note("every key of %s begins with %q: --peel compares without it", [...]string{c.result.A, c.result.B}[i], stack)
		}
	}
}

func describe(l tree.Leaf) string {
	if t := l.Tensor(); t != nil {
		return t.String()
	}
	if raw, ok := l.Value.(*source.RawTensor); ok {
		return raw.String()
	}
	return tree.Repr(l.Value)
}

func (c *comparer) leaf(file, key string, a, b tree.Leaf) error {
	ta, tb := a.Tensor(), b.Tensor()
	ra, isRawA := a.Value.(*source.RawTensor)
	rb, isRawB := b.Value.(*source.RawTensor)
	if isRawA && isRawB {
		c.result.Tensors++
		if ra.String() != rb.String() || !bytes.Equal(ra.Data, rb.Data) {
			c.add(Entry{File: file, Key: key, Kind: Values, A: describe(a), B: describe(b) + ", as bytes"})
		}
		return nil
	}
	if ta == nil || tb == nil {
		c.result.Others++
		if !sameValue(a.Value, b.Value) {
			c.add(Entry{File: file, Key: key, Kind: Values, A: describe(a), B: describe(b)})
		}
		return nil
	}
	return c.tensors(file, key, ta, tb)
}

func (c *comparer) tensors(file, key string, a, b *tensor.Tensor) error {
	c.result.Tensors++
	e := Entry{File: file, Key: key, A: a.String(), B: b.String(), Elements: a.NumElements()}
	switch {
	case !a.SameShape(b.Shape):
		e.Kind = Shape
		c.add(e)
	case a.Meta || b.Meta:
		if a.Meta != b.Meta || a.DType != b.DType {
			e.Kind = Values
			e.A, e.B = metaText(a), metaText(b)
			c.add(e)
		}
	default:
		d, err := differ(a, b, c.options.Tolerance)
		if err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
		if d != nil {
			e.Kind, e.Diff = Values, d
			if a.DType != b.DType {
				e.Kind = DType
			}
			c.add(e)
		}
	}
	if c.options.Progress != nil && !a.Meta {
		c.done += int64(a.NumElements() * a.DType.Size())
		c.options.Progress(c.done, c.total)
	}
	return nil
}

func metaText(t *tensor.Tensor) string {
	if t.Meta {
		return t.String() + " on meta, without elements"
	}
	return t.String()
}
