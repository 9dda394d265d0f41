package harness

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Table shows results as they come, a line each, and on a terminal what is
// under way. It is not safe for several goroutines: a [Runner] calls one at a time.
type Table struct {
	w        io.Writer
	terminal bool
	total    int
	width    int // of the longest name
	ended    int
	running  []string
}

// NewTable makes a table of the scenarios; terminal allows lines to be drawn over.
func NewTable(w io.Writer, scenarios []*Scenario, terminal bool) *Table {
	t := &Table{w: w, terminal: terminal, total: len(scenarios)}
	for _, s := range scenarios {
		t.width = max(t.width, len(s.Name))
	}
	return t
}

// Started notes that a scenario has begun.
func (t *Table) Started(s *Scenario) {
	t.running = append(t.running, s.Name)
	t.progress()
}

// Ended shows how a scenario went.
func (t *Table) Ended(r *Result) {
	t.ended++
	for i, name := range t.running {
		if name == r.Name {
			t.running = append(t.running[:i], t.running[i+1:]...)
			break
		}
	}
	t.clear()
	note := r.About
	if r.Outcome == Skipped {
		note = r.Reason
	}
	took := ""
	if r.Took > 0 {
		took = fmt.Sprintf("%.1f s", r.Took.Seconds())
	}
	fmt.Fprintf(t.w, "%-7s %-*s %7s  %s\n", r.Outcome, t.width, r.Name, took, note)
	if r.Outcome == Failed {
		t.failure(r)
	}
	t.progress()
}

func (t *Table) failure(r *Result) {
	for _, f := range r.Failures {
		fmt.Fprintf(t.w, "        %s\n", f)
	}
	for _, j := range r.Jobs {
		if len(j.Failures) > 0 && len(j.Tail) > 0 {
			fmt.Fprintf(t.w, "        last lines of job %s:\n", j.Name)
			for _, line := range j.Tail {
				fmt.Fprintf(t.w, "          | %s\n", line)
			}
		}
	}
	if r.Dir != "" {
		fmt.Fprintf(t.w, "        its files: %s\n", r.Dir)
	}
	fmt.Fprintf(t.w, "        alone: %s\n", r.Rerun)
}

func (t *Table) clear() {
	if t.terminal {
		fmt.Fprint(t.w, "\r\x1b[K")
	}
}

// progress draws the line of what is under way.
func (t *Table) progress() {
	if !t.terminal || t.ended == t.total {
		return
	}
	line := fmt.Sprintf("%d/%d  %s", t.ended, t.total, strings.Join(t.running, ", "))
	if len(line) > 79 {
		line = line[:76] + "..."
	}
	t.clear()
	fmt.Fprint(t.w, line)
}

// Finish shows the sums.
func (t *Table) Finish(results []*Result, took time.Duration) {
	t.clear()
	s := Summarise(results)
	fmt.Fprintf(t.w, "%d passed, %d failed, %d skipped in %.1f s\n", s.Passed, s.Failed, s.Skipped, took.Seconds())
}
