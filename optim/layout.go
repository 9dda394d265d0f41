package optim

import (
	"fmt"
	"slices"
	"strings"
)

// Layout is what an optimizer state is matched by: groups, and in each the
// parameters in order.
type Layout [][]Slot

// Slot is one parameter's place in a [Layout].
type Slot struct {
	// Name is the parameter's name; in a file that has no names, its index.
	Name string
	// Shape is nil if the file has no state for the parameter, and so no shape.
	Shape []int
}

func (s Slot) String() string {
	if s.Shape == nil {
		return s.Name + " (no state)"
	}
	return fmt.Sprintf("%s %v", s.Name, s.Shape)
}

// LayoutError says that an optimizer state does not fit the model's optimizer.
// Nothing was loaded.
type LayoutError struct {
	File, Model Layout

	byName bool // the file names its parameters
}

// maxListed is how many parameters of a group an error lists.
const maxListed = 24

func (e *LayoutError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "optimizer state does not fit the model: %s", e.mismatch())
	for i := range max(len(e.File), len(e.Model)) {
		fmt.Fprintf(&b, "\n  group %d", i)
		from := firstShown(e.File, e.Model, i)
		fmt.Fprintf(&b, "\n    file:  %s", e.File.describe(i, from))
		fmt.Fprintf(&b, "\n    model: %s", e.Model.describe(i, from))
	}
	if why := e.whyNotRegrouped(); why != "" {
		b.WriteString("\n" + why)
	}
	b.WriteString("\nresume with the model and the parameter groups (weight decay, frozen parameters) that the checkpoint was trained with, or without the optimizer's state")
	return b.String()
}

// whyNotRegrouped says what keeps the same number of parameters from being
// matched across groups; "" if the numbers differ.
func (e *LayoutError) whyNotRegrouped() string {
	file, model := slices.Concat(e.File...), slices.Concat(e.Model...)
	if len(file) != len(model) || e.byName {
		return ""
	}
	seen := map[string]string{}
	for _, s := range model {
		shape := fmt.Sprint(s.Shape)
		if other, ok := seen[shape]; ok {
			return fmt.Sprintf("the file does not name its parameters, and their shapes do not tell which is which: %s and %s are both %s", other, s.Name, shape)
		}
		seen[shape] = s.Name
	}
	return ""
}

// mismatch names the first difference.
func (e *LayoutError) mismatch() string {
	if e.byName {
		return e.nameMismatch()
	}
	if len(e.File) != len(e.Model) {
		return fmt.Sprintf("the file has %d parameter groups, the model has %d", len(e.File), len(e.Model))
	}
	for i := range e.File {
		if len(e.File[i]) != len(e.Model[i]) {
			return fmt.Sprintf("group %d has %d parameters in the file, %d in the model", i, len(e.File[i]), len(e.Model[i]))
		}
	}
	for i := range e.File {
		for j, f := range e.File[i] {
			if m := e.Model[i][j]; !f.fits(m) {
				return fmt.Sprintf("parameter %d of group %d has shape %v in the file, %v in the model (%s)", j, i, f.Shape, m.Shape, m.Name)
			}
		}
	}
	return "no difference"
}

// nameMismatch names a parameter that only one side has.
func (e *LayoutError) nameMismatch() string {
	file, model := slices.Concat(e.File...), slices.Concat(e.Model...)
	for _, s := range model {
		if !slices.ContainsFunc(file, func(f Slot) bool { return strings.HasSuffix(f.Name, s.Name) }) {
			return fmt.Sprintf("the model's parameter %s is not among those that the file names", s.Name)
		}
	}
	for _, f := range file {
		for _, s := range model {
			if strings.HasSuffix(f.Name, s.Name) && !f.fits(s) {
				return fmt.Sprintf("parameter %s has shape %v in the file, %v in the model", s.Name, f.Shape, s.Shape)
			}
		}
	}
	return "the names of the parameters in the file are not the model's"
}

func (s Slot) fits(m Slot) bool { return s.Shape == nil || slices.Equal(s.Shape, m.Shape) }

// fits reports whether a state of layout l can be loaded into m.
func (l Layout) fits(m Layout) bool {
	return slices.EqualFunc(l, m, func(f, g []Slot) bool { return slices.EqualFunc(f, g, Slot.fits) })
}

// firstShown is where the listing of group i begins: a few parameters before
// the first difference, if that would not be listed otherwise.
func firstShown(file, model Layout, i int) int {
	if i >= len(file) || i >= len(model) {
		return 0
	}
	for j := range min(len(file[i]), len(model[i])) {
		if !file[i][j].fits(model[i][j]) {
			return max(0, j-maxListed/2)
		}
	}
	return 0
}

// describe lists group i from parameter from on.
func (l Layout) describe(i, from int) string {
	if i >= len(l) {
		return "absent"
	}
	slots := l[i]
	if len(slots) == 0 {
		return "no parameters"
	}
	from = min(from, len(slots))
	to := min(from+maxListed, len(slots))
	parts := make([]string, 0, maxListed+2)
	if from > 0 {
		parts = append(parts, fmt.Sprintf("… %d before", from))
	}
	for _, s := range slots[from:to] {
		parts = append(parts, s.String())
	}
	if to < len(slots) {
		parts = append(parts, fmt.Sprintf("… %d more", len(slots)-to))
	}
	return strings.Join(parts, ", ")
}

// layout is the layout of the optimizer's own groups.
func (b *base) layout() Layout {
	l := make(Layout, len(b.groups))
	for i, g := range b.groups {
		for _, p := range g.parameters {
			l[i] = append(l[i], Slot{Name: p.Name, Shape: append([]int{}, p.Shape...)})
		}
	}
	return l
}
