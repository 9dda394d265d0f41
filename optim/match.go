package optim

import (
	"fmt"
	"slices"
	"strings"

	"rejoin/pyobj"
)

// match finds the parameter of the model for every entry of the file's groups,
// and says if that is not simply the one at the same place.
func (b *base) match(groups []loadedGroup, states *pyobj.Dict) (notices []string, err error) {
	file, err := b.fileLayout(groups, states)
	if err != nil {
		return nil, err
	}
	model := b.layout()
	named := fileNames(groups)
	samePlaces := file.fits(model) && (named == nil || slices.EqualFunc(named, model, sameNames))
	switch {
	case samePlaces:
		for i := range groups {
			groups[i].parameters = b.groups[i].parameters
		}
	case named != nil && b.matchNames(groups, file, named):
		notices = append(notices, regrouped("name", file, model))
	case named == nil && b.matchShapes(groups, file, model):
		notices = append(notices, regrouped("shape, each of which is there once", file, model))
	default:
		return nil, &LayoutError{File: file, Model: model, byName: named != nil}
	}
	return notices, nil
}

func regrouped(how string, file, model Layout) string {
	return fmt.Sprintf("the optimizer's state holds the same parameters as the model in other groups or another order: %s in the file, %s here; "+
		"they are matched by %s, and the file's groups with their options are taken over", file.sizes(), model.sizes(), how)
}

// sizes says how many parameters each group has.
func (l Layout) sizes() string {
	var parts []string
	for _, slots := range l {
		parts = append(parts, fmt.Sprint(len(slots)))
	}
	return fmt.Sprintf("%d groups (of %s parameters)", len(l), strings.Join(parts, ", "))
}

// fileLayout is the layout of a state dict, in which no state may be left over.
func (b *base) fileLayout(groups []loadedGroup, states *pyobj.Dict) (Layout, error) {
	listed := map[int64]bool{}
	file := make(Layout, len(groups))
	for i := range groups {
		for j, n := range groups[i].numbers {
			listed[n] = true
			slot := Slot{Name: fmt.Sprint(n)}
			if groups[i].names != nil {
				slot.Name = groups[i].names[j]
			}
			if v, ok := states.Get(n); ok {
				shape, err := b.stateShape(n, v)
				if err != nil {
					return nil, err
				}
				slot.Shape = shape
			}
			file[i] = append(file[i], slot)
		}
	}
	for _, e := range states.Entries() {
		if n, err := pyobj.AsInt(e.Key); err != nil || !listed[n] {
			return nil, stateError("state", fmt.Errorf("it has an entry %s that no parameter group lists", keyName(e.Key)))
		}
	}
	return file, nil
}

// stateShape is the shape of the parameter that a state is of; nil if the state
// does not tell, as that of a parameter that was never stepped.
func (b *base) stateShape(n int64, v any) ([]int, error) {
	entry, err := pyobj.AsDict(v)
	if err != nil {
		return nil, stateError(fmt.Sprintf("state[%d]", n), err)
	}
	if entry.Len() == 0 {
		return nil, nil
	}
	keys, whose := b.algorithm.shapeKeys()
	for _, key := range keys {
		value, ok := entry.Get(key)
		if !ok {
			continue
		}
		if value == nil && key == "momentum_buffer" {
			return nil, nil
		}
		t, err := stateTensor(entry, key)
		if err != nil {
			return nil, stateError(fmt.Sprintf("state[%d][%q]", n, key), err)
		}
		return append([]int{}, t.Shape...), nil
	}
	return nil, stateError(fmt.Sprintf("state[%d][%q]", n, keys[0]), fmt.Errorf("is missing; the state has %s, which is not %s", keyList(entry), whose))
}

// fileNames are the parameters' names by group, without the prefix of torch's
// wrappers; nil unless every group has them.
func fileNames(groups []loadedGroup) [][]string {
	names := make([][]string, len(groups))
	named := false
	for i := range groups {
		if groups[i].names == nil && len(groups[i].numbers) > 0 {
			return nil
		}
		names[i] = groups[i].names
		named = named || names[i] != nil
	}
	if !named {
		return nil
	}
	for _, prefix := range []string{"_orig_mod.", "module."} {
		names = withoutPrefix(names, prefix)
	}
	return names
}

// withoutPrefix takes prefix off if all names have it.
func withoutPrefix(names [][]string, prefix string) [][]string {
	out := make([][]string, len(names))
	for i, group := range names {
		for _, name := range group {
			rest, ok := strings.CutPrefix(name, prefix)
			if !ok {
				return names
			}
			out[i] = append(out[i], rest)
		}
	}
	return out
}

func sameNames(names []string, slots []Slot) bool {
	return slices.EqualFunc(names, slots, func(name string, s Slot) bool { return name == s.Name })
}

// matchNames matches by name, if the file and the model have the same names and
// the shapes agree.
func (b *base) matchNames(groups []loadedGroup, file Layout, names [][]string) bool {
	left := map[string]*parameter{}
	for _, g := range b.groups {
		for _, p := range g.parameters {
			left[p.Name] = p
		}
	}
	for i := range groups {
		for j, name := range names[i] {
			p, ok := left[name]
			if !ok || !file[i][j].fits(Slot{Shape: p.Shape}) {
				return false
			}
			delete(left, name)
			groups[i].parameters = append(groups[i].parameters, p)
		}
	}
	return len(left) == 0
}

// matchShapes matches by shape, if the file tells the shape of every parameter,
// no two are alike, and the model has the same.
func (b *base) matchShapes(groups []loadedGroup, file, model Layout) bool {
	left := map[string]*parameter{}
	for i, slots := range model {
		for j, s := range slots {
			key := fmt.Sprint(s.Shape)
			if left[key] != nil {
				return false
			}
			left[key] = b.groups[i].parameters[j]
		}
	}
	for i, slots := range file {
		for _, s := range slots {
			key := fmt.Sprint(s.Shape)
			p := left[key]
			if s.Shape == nil || p == nil {
				return false
			}
			delete(left, key)
			groups[i].parameters = append(groups[i].parameters, p)
		}
	}
	return len(left) == 0
}
