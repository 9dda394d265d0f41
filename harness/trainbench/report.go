package trainbench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteText writes a table for people; heading, if not nil, decorates its top.
func (r *Result) WriteText(w io.Writer, heading func(string) string) error {
	if heading == nil {
		heading = func(s string) string { return s }
	}
	top := fmt.Sprintf("%d workers, layers %v (%d parameters), batches of %d, AdamW, clipping; %d steps, the fastest of %d rounds",
		r.WorldSize, r.Widths, r.Parameters, r.BatchSize, r.Steps, r.Rounds)
	if _, err := fmt.Fprintln(w, heading(top)); err != nil {
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tab, "\tsteps/s\tms a step\tstart and end\t\n")
	line := func(name string, s Speed) {
		fmt.Fprintf(tab, "%s\t%.1f\t%.2f\t%.2f s\t\n", name, s.StepsPerSecond, 1e3/s.StepsPerSecond, s.StartSeconds)
	}
	line("launch train", r.Rejoin)
	if r.Torch != nil {
		line(fmt.Sprintf("torch %s, DDP over gloo", r.Version), *r.Torch)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	if r.Torch == nil {
		_, err := fmt.Fprintf(w, "torch: skipped: %s\n", r.Skipped)
		return err
	}
	_, err := fmt.Fprintf(w, "%.2f × the speed of DDP; %.2f × its time to start and end\n", r.SpeedOfTorch, r.StartOfTorch)
	return err
}
