package compare

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// maxValue bounds a value in the table, in characters.
const maxValue = 60

// WriteText writes the differences as a table for people; heading, if not nil,
// decorates the line that sums up.
func (r *Result) WriteText(w io.Writer, heading func(string) string) error {
	for _, n := range r.Notes {
		if _, err := fmt.Fprintln(w, n); err != nil {
			return err
		}
	}
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if len(r.Entries) > 0 {
		fmt.Fprintln(tab, "KEY\tDIFFERS\tMAX ABS\tMAX REL\tMAX ULP\tFIRST")
	}
	for _, e := range r.Entries {
		fmt.Fprintln(tab, e.row())
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	line := r.summary()
	if heading != nil {
		line = heading(line)
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

func (r *Result) summary() string {
	if r.Equal {
		return fmt.Sprintf("equal: %d tensors and %d other values", r.Tensors, r.Others)
	}
	values, other := 0, 0
	for _, e := range r.Entries {
		if e.Diff != nil {
			values++
		} else {
			other++
		}
	}
	return fmt.Sprintf("different: the elements or dtypes of %d of %d tensors compared, and %d other entries", values, r.Tensors, other)
}

func (e Entry) row() string {
	name := e.Key
	if e.File != "" {
		name = strings.TrimSuffix(e.File+": "+e.Key, ": ")
	}
	d := e.Diff
	if d == nil {
		return name + "\t" + e.sides()
	}
	what := fmt.Sprintf("%d of %d elements", d.Count, e.Elements)
	if e.Kind == DType {
		what = fmt.Sprintf("%s, %s", dtypes(e), what)
	}
	if d.sameValues {
		return name + "\t" + dtypes(e) + ", equal values"
	}
	ulp := "-"
	if d.MaxULP >= 0 {
		ulp = fmt.Sprint(d.MaxULP)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%v: %s ≠ %s", name, what, short(d.MaxAbs), short(d.MaxRel), ulp, d.First, d.FirstA, d.FirstB)
}

func dtypes(e Entry) string {
	a, _, _ := strings.Cut(e.A, "[")
	b, _, _ := strings.Cut(e.B, "[")
	return a + " ≠ " + b
}

func short(n Number) string {
	if math.IsInf(float64(n), 0) {
		return "inf"
	}
	return fmt.Sprintf("%.3g", float64(n))
}

// sides shows an entry that has no elements to compare.
func (e Entry) sides() string {
	switch e.Kind {
	case OnlyA:
		return "only in the first  " + clip(e.A)
	case OnlyB:
		return "only in the second  " + clip(e.B)
	case Shape:
		return fmt.Sprintf("shape: %s ≠ %s", e.A, e.B)
	case Missing:
		var parts []string
		for side, text := range map[string]string{"the first": e.A, "the second": e.B} {
			if text != "" {
				parts = append(parts, side+" cannot be read: "+text)
			}
		}
		return strings.Join(parts, "; ")
	default:
		return clip(e.A) + " ≠ " + clip(e.B)
	}
}

func clip(s string) string {
	if r := []rune(s); len(r) > maxValue {
		return string(r[:maxValue-1]) + "…"
	}
	return s
}
