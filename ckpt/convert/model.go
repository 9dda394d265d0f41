package convert

import (
	"fmt"
	"slices"
	"strings"

	"rejoin/ckpt/names"
	"rejoin/ckpt/source"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// weights is a model's state dict on its way through a conversion.
type weights struct {
	sd       *tensor.StateDict
	metadata map[string]string // of safetensors, without ties
	// versions is torch's _metadata: an OrderedDict of module names; nil for none.
	versions *pyobj.Dict
	notes    []string
}

func (w *weights) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// takeModel takes the model out of a source, with the ties that its files recorded.
func takeModel(s *source.Source) (*weights, error) {
	sd, wrapper, err := s.Model()
	if err != nil {
		return nil, err
	}
	for _, p := range s.Parts {
		if p.Checkpoint == nil || p.Checkpoint.Safetensors() == nil {
			continue
		}
		if other := p.Checkpoint.Safetensors().Unsupported(); len(other) > 0 {
			return nil, fmt.Errorf("%s: %d tensors have a dtype that cannot be converted, such as %s with %s; nothing is left out silently, so nothing was written",
				p.Path, len(other), other[0].Name, other[0].DType)
		}
	}
	w := &weights{sd: tensor.NewStateDict(), metadata: s.Metadata()}
	for _, name := range sd.Names() {
		t, _ := sd.Get(name)
		plain := *t // a state dict holds tensors that need no gradient
		plain.RequiresGrad = false
		w.sd.Set(name, &plain)
	}
	for alias, kept := range names.RecordedTies(w.metadata, w.sd) {
		delete(w.metadata, alias)
		t, _ := w.sd.Get(kept)
		w.sd.Set(alias, t)
		w.note("%s is tied to %s again", alias, kept)
	}
	slices.Sort(w.notes)
	if wrapper != "" {
		w.note("the weights are under %q", wrapper)
	}
	if s.Kind == source.File {
		w.describeFile(s.Parts[0], wrapper)
	}
	return w, nil
}

// describeFile keeps torch's _metadata and says what of a file is left out.
func (w *weights) describeFile(p *source.Part, wrapper string) {
	if p.Module != "" {
		w.note("the weights are taken out of a whole module of class %s", p.Module)
	}
	top, ok := p.Checkpoint.Object().(*pyobj.Dict)
	if !ok {
		return
	}
	inner := top
	if wrapper != "" {
		v, _ := top.Get(wrapper)
		if inner, ok = v.(*pyobj.Dict); !ok {
			inner = &pyobj.Dict{}
		}
		w.leftOut("", top, wrapper)
	}
	w.leftOut(wrapper, inner, "")
	if state, ok := inner.State.(*pyobj.Dict); ok {
		v, _ := state.Get("_metadata")
		w.versions, _ = v.(*pyobj.Dict)
	}
}

// leftOut notes the keys of d that are no tensors, but for the one called but.
func (w *weights) leftOut(where string, d *pyobj.Dict, but string) {
	var keys []string
	for _, e := range d.Entries() {
		if _, err := pyobj.AsTensor(e.Value); err != nil && e.Key != but {
			keys = append(keys, fmt.Sprint(e.Key))
		}
	}
	if len(keys) > 0 {
		if where != "" {
			where += ": "
		}
		w.note("%sleft out, as no weights: %s", where, strings.Join(keys, ", "))
	}
}

// PrefixError is a prefix that some keys do not have.
type PrefixError struct {
	Prefix string
	Keys   []string
}

func (e *PrefixError) Error() string {
	return fmt.Sprintf("%d keys do not begin with %q, such as %s; nothing is taken off some keys only", len(e.Keys), e.Prefix, e.Keys[0])
}

// strip takes prefix off every key.
func (w *weights) strip(prefix string) error {
	var without []string
	for _, name := range w.sd.Names() {
		if !strings.HasPrefix(name, prefix) || name == prefix {
			without = append(without, name)
		}
	}
	if len(without) > 0 {
		return &PrefixError{prefix, without}
	}
	w.versions = renameModules(w.versions, func(module string) (string, bool) {
		if module == strings.TrimSuffix(prefix, ".") {
			return "", true
		}
		return strings.CutPrefix(module, prefix)
	})
	w.note("the prefix %q was taken off all %d keys", prefix, w.sd.Len())
	return w.rename(func(name string) string { return name[len(prefix):] })
}

// add puts prefix before every key.
func (w *weights) add(prefix string) error {
	w.versions = renameModules(w.versions, func(module string) (string, bool) {
		return strings.TrimSuffix(prefix+module, "."), true
	})
	w.note("the prefix %q was put before all %d keys", prefix, w.sd.Len())
	return w.rename(func(name string) string { return prefix + name })
}

func (w *weights) rename(f func(string) string) (err error) {
	w.sd, err = names.Renamed(w.sd, f)
	return err
}

// renameModules renames the keys of _metadata, and drops those of modules that
// are gone.
func renameModules(d *pyobj.Dict, f func(string) (string, bool)) *pyobj.Dict {
	if d == nil {
		return nil
	}
	out := &pyobj.Dict{Kind: d.Kind}
	for _, e := range d.Entries() {
		if key, ok := e.Key.(string); ok {
			if renamed, keep := f(key); keep {
				out.Set(renamed, e.Value)
			}
		}
	}
	return out
}

// peel takes off the stack of wrapper prefixes that every key has.
func (w *weights) peel() error {
	stack := names.CommonWrappers(w.sd.Names())
	if len(stack) == 0 {
		if mixed := names.Mixed(w.sd.Names()); len(mixed) > 0 {
			w.note("%d of %d keys begin with a wrapper's prefix, such as %s: they are left as they are", len(mixed), w.sd.Len(), mixed[0])
		}
		return nil
	}
	return w.strip(strings.Join(stack, ""))
}

// viewOf identifies the elements of a tensor; ok is false for one that has none.
func viewOf(t *tensor.Tensor) (view string, ok bool) {
	if t.Meta || t.NumElements() == 0 {
		return "", false
	}
	return fmt.Sprintf("%p %v %d %v %v", t.Storage, t.DType, t.Offset, t.Shape, t.Stride), true
}

// convertTo gives every floating-point tensor the dtype. Tied tensors stay tied.
func (w *weights) convertTo(to tensor.DType) error {
	out, done, losses := tensor.NewStateDict(), map[string]*tensor.Tensor{}, map[tensor.DType]*loss{}
	var left []string
	for _, name := range w.sd.Names() {
		t, _ := w.sd.Get(name)
		if !t.DType.IsFloat() || t.DType == to {
			if !t.DType.IsFloat() {
				left = append(left, name)
			}
			out.Set(name, t)
			continue
		}
		if t.Meta {
			return fmt.Errorf("%s is on the meta device: it has no elements to convert", name)
		}
		view, ok := viewOf(t)
		converted := done[view]
		if !ok || converted == nil {
			l := losses[t.DType]
			if l == nil {
				l = &loss{from: t.DType, to: to}
				losses[t.DType] = l
			}
			var err error
			if converted, err = cast(name, t, to, l); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			done[view] = converted
		}
		out.Set(name, converted)
	}
	for _, d := range slices.Sorted(keysOf(losses)) {
		if l := losses[d]; widens(d, to) {
			w.note("%v → %v is exact", d, to)
		} else {
			w.note("%v", l)
		}
	}
	if len(left) > 0 {
		w.note("left in their own dtype, as no floating-point numbers: %s", strings.Join(left, ", "))
	}
	w.sd = out
	return nil
}

// untie keeps the first of each group of tied tensors, as safetensors needs it,
// and returns what it left out: name to the key that holds it. Views that
// merely overlap are written apart, and said.
func (w *weights) untie() (kept *tensor.StateDict, ties map[string]string) {
	kept, ties = tensor.NewStateDict(), map[string]string{}
	first, users := map[string]string{}, map[*tensor.Storage]string{}
	for _, name := range w.sd.Names() {
		t, _ := w.sd.Get(name)
		view, ok := viewOf(t)
		if ok && first[view] != "" {
			ties[name] = first[view]
			w.note("%s is tied to %s: one copy is kept, and the tie in the metadata", name, first[view])
			continue
		}
		if ok && users[t.Storage] != "" {
			w.note("%s shares memory with %s: each gets a copy of its own", name, users[t.Storage])
		}
		if ok {
			first[view], users[t.Storage] = name, name
		}
		kept.Set(name, t)
	}
	return kept, ties
}
