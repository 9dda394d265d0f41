package verify

import (
	"fmt"
	"io"
)

// WriteText writes the result for people; heading and warning, if not nil,
// decorate the last line and the problems.
func (r *Result) WriteText(w io.Writer, heading, warning func(string) string) error {
	plain := func(s string) string { return s }
	if heading == nil {
		heading = plain
	}
	if warning == nil {
		warning = plain
	}
	var lines []string
	lines = append(lines, r.Notes...)
	for _, c := range r.Checked {
		lines = append(lines, "checked: "+c)
	}
	for _, u := range r.Unchecked {
		lines = append(lines, "not checked: "+u)
	}
	for _, p := range r.Problems {
		lines = append(lines, warning("problem: "+p.String()))
	}
	last := r.Path + ": OK"
	if len(r.Problems) == 1 {
		last = r.Path + ": 1 problem"
	} else if !r.OK {
		last = fmt.Sprintf("%s: %d problems", r.Path, len(r.Problems))
	}
	for _, line := range append(lines, heading(last)) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
