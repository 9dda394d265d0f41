package names

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rejoin/tensor"
)

// Param is a parameter or buffer of the model.
type Param struct {
	Name  string
	Shape []int
}

// Options say what a match may leave out.
type Options struct {
	// Skip are patterns (see [CheckPatterns]) of keys of the file, with or
	// without their wrapper prefix, that are left out; a parameter of that name
	// keeps its values.
	Skip []string
	// AllowMissing lets parameters that have no key keep their values.
	AllowMissing bool
	// Ties maps a name that the file left out to the key that holds the same
	// tensor, such as lm_head.weight to transformer.wte.weight.
	Ties map[string]string
}

// Match says which key of the file goes to which parameter.
type Match struct {
	Source  map[string]string // parameter name to key
	Peeled  string            // the prefix that was taken off every key; "" for none
	Tied    []string          // parameters that took a tied tensor
	Skipped []string          // keys that --skip left out
	Kept    []string          // parameters without a key, which keep their values
}

// Find matches the keys of file to the parameters. A wrapper prefix is taken off
// only if every key has it and only if the model's own names do not match with
// it. The error is a [*MismatchError], also if not a single key matches.
func Find(file *tensor.StateDict, model []Param, o Options) (*Match, error) {
	if err := CheckPatterns(o.Skip); err != nil {
		return nil, err
	}
	stack := CommonWrappers(file.Names())
	var best *attempt
	for depth := 0; depth <= len(stack); depth++ {
		a := try(file, model, o, strings.Join(stack[:depth], ""))
		if a.fits() {
			return a.match, nil
		}
		if best == nil || a.fault.Matched > best.fault.Matched {
			best = a
		}
	}
	best.fault.Wrapped = Mixed(file.Names())
	return nil, best.fault
}

// attempt is a match under one prefix, and what does not fit.
type attempt struct {
	match *Match
	fault *MismatchError
}

func (a *attempt) fits() bool {
	return a.fault.Matched > 0 && len(a.fault.Missing)+len(a.fault.Unexpected)+len(a.fault.Shapes) == 0
}

func try(file *tensor.StateDict, model []Param, o Options, prefix string) *attempt {
	a := &attempt{match: &Match{Source: map[string]string{}, Peeled: prefix}, fault: &MismatchError{Peeled: prefix}}
	used := map[string]bool{}
	for _, p := range model {
		if key := a.place(file, p, o); key != "" {
			used[key] = true
		}
	}
	for _, key := range file.Names() {
		switch name := strings.TrimPrefix(key, prefix); {
		case matchAny(o.Skip, key), matchAny(o.Skip, name):
			a.match.Skipped = append(a.match.Skipped, key)
		case !used[key]:
			a.fault.Unexpected = append(a.fault.Unexpected, key)
		}
	}
	return a
}

// place finds the key of one parameter and returns it, "" for none.
func (a *attempt) place(file *tensor.StateDict, p Param, o Options) string {
	prefix := a.match.Peeled
	key := prefix + p.Name
	if matchAny(o.Skip, key) || matchAny(o.Skip, p.Name) {
		a.match.Kept = append(a.match.Kept, p.Name)
		return ""
	}
	t, ok := file.Get(key)
	if tied, isTied := tieOf(o.Ties, key, p.Name); !ok && isTied {
		for _, candidate := range []string{tied, prefix + tied} {
			if t, ok = file.Get(candidate); ok {
				key = candidate
				a.match.Tied = append(a.match.Tied, p.Name)
				break
			}
		}
	}
	switch {
	case ok && !t.SameShape(p.Shape):
		a.fault.Shapes = append(a.fault.Shapes, ShapeMismatch{Name: p.Name, Key: key, Got: t.Shape, Want: p.Shape})
	case ok:
		a.match.Source[p.Name] = key
		a.fault.Matched++
	case o.AllowMissing:
		a.match.Kept = append(a.match.Kept, p.Name)
	default:
		a.fault.Missing = append(a.fault.Missing, p.Name)
	}
	if !ok {
		return ""
	}
	return key
}

func tieOf(ties map[string]string, key, name string) (string, bool) {
	if to, ok := ties[key]; ok {
		return to, true
	}
	to, ok := ties[name]
	return to, ok
}

// Select is the file's tensors under the parameters' names, in the model's
// order; parameters that keep their values are not in it.
func (m *Match) Select(file *tensor.StateDict, model []Param) *tensor.StateDict {
	out := tensor.NewStateDict()
	for _, p := range model {
		if key, ok := m.Source[p.Name]; ok {
			t, _ := file.Get(key)
			out.Set(p.Name, t)
		}
	}
	return out
}

// Notes says in sentences what was not plain: the prefix that was taken off,
// ties, keys left out, parameters that keep their values.
func (m *Match) Notes() []string {
	var notes []string
	if m.Peeled != "" {
		notes = append(notes, fmt.Sprintf("the prefix %q, which every key has, was taken off", m.Peeled))
	}
	for _, name := range m.Tied {
		notes = append(notes, fmt.Sprintf("%s is tied to %s", name, m.Source[name]))
	}
	if len(m.Skipped) > 0 {
		notes = append(notes, fmt.Sprintf("skipped keys of the file (%d): %s", len(m.Skipped), strings.Join(m.Skipped, ", ")))
	}
	if len(m.Kept) > 0 {
		notes = append(notes, fmt.Sprintf("not in the file, so left as they were (%d): %s", len(m.Kept), strings.Join(m.Kept, ", ")))
	}
	return notes
}

// Renamed is sd under the names that rename gives. Two keys that would become
// one are an error.
func Renamed(sd *tensor.StateDict, rename func(string) string) (*tensor.StateDict, error) {
	out, from := tensor.NewStateDict(), map[string]string{}
	for _, key := range sd.Names() {
		name := rename(key)
		if before, taken := from[name]; taken {
			return nil, &CollisionError{Name: name, Keys: []string{before, key}}
		}
		from[name] = key
		t, _ := sd.Get(key)
		out.Set(name, t)
	}
	return out, nil
}

// CollisionError is a renaming under which keys would become one.
type CollisionError struct {
	Name string
	Keys []string
}

func (e *CollisionError) Error() string {
	return fmt.Sprintf("the keys %s would both be called %q; rename one of them first", strings.Join(e.Keys, " and "), e.Name)
}

// RecordedTies takes from a safetensors file's metadata the names that its
// writer left out because another key holds the same tensor. As
// safetensors.torch.save_model writes it, an entry maps the name to that key.
func RecordedTies(metadata map[string]string, sd *tensor.StateDict) map[string]string {
	ties := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		_, there := sd.Get(name)
		if _, ok := sd.Get(metadata[name]); ok && !there {
			ties[name] = metadata[name]
		}
	}
	return ties
}
