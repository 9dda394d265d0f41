package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Result is what was measured.
type Result struct {
	NProc   int    `json:"nproc"`
	Rounds  int    `json:"rounds"`
	Torch   string `json:"torch,omitempty"`         // its version
	Skipped string `json:"torch_skipped,omitempty"` // why there is no torch
	Sizes   []Size `json:"sizes"`
}

// Size is the outcome for one size of buffer.
type Size struct {
	Bytes  int    `json:"bytes"`
	Rejoin Times  `json:"rejoin"`
	Gloo   *Times `json:"gloo,omitempty"`
	// Ratio is gloo's median by ours: how many times as fast we are. 0 where
	// gloo was not measured.
	Ratio float64 `json:"ratio"`

	rejoin, gloo []float64
}

// Times summarises the calls of all rounds, in seconds.
type Times struct {
	Calls  int     `json:"calls"`
	Median float64 `json:"median_s"`
	Mean   float64 `json:"mean_s"`
}

// NewResult has no times yet.
func NewResult(nproc, rounds int, skipped string) *Result {
	r := &Result{NProc: nproc, Rounds: rounds, Skipped: skipped}
	for _, n := range Sizes {
		r.Sizes = append(r.Sizes, Size{Bytes: n})
	}
	return r
}

// Add takes over what rank 0 printed in one round, of gloo or of Rejoin.
func (r *Result) Add(gloo bool, printed []byte) error {
	lines := json.NewDecoder(bytes.NewReader(printed))
	for i := range r.Sizes {
		s := &r.Sizes[i]
		var t timings
		if err := lines.Decode(&t); err != nil {
			return fmt.Errorf("the times of %d bytes, from rank 0: %w", s.Bytes, err)
		}
		if t.Bytes != s.Bytes || len(t.Seconds) == 0 {
			return fmt.Errorf("rank 0 printed %d times of %d bytes, expected some of %d bytes", len(t.Seconds), t.Bytes, s.Bytes)
		}
		if !gloo {
			s.rejoin = append(s.rejoin, t.Seconds...)
			s.Rejoin = summary(s.rejoin)
			continue
		}
		r.Torch = t.Torch
		s.gloo = append(s.gloo, t.Seconds...)
		sum := summary(s.gloo)
		s.Gloo, s.Ratio = &sum, sum.Median/s.Rejoin.Median
	}
	return nil
}

func summary(seconds []float64) Times {
	sorted := slices.Sorted(slices.Values(seconds))
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	return Times{Calls: len(sorted), Median: sorted[len(sorted)/2], Mean: sum / float64(len(sorted))}
}

// WriteText writes a table for people; heading, if not nil, decorates its top.
func (r *Result) WriteText(w io.Writer, heading func(string) string) error {
	if heading == nil {
		heading = func(s string) string { return s }
	}
	top := fmt.Sprintf("allreduce of float32 between %d processes of this host; median and mean call of %d rounds", r.NProc, r.Rounds)
	if _, err := fmt.Fprintln(w, heading(top)); err != nil {
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tab, "\trejoin\tmean\tGB/s\t")
	if r.Torch != "" {
		fmt.Fprintf(tab, "gloo (torch %s)\tmean\ttimes as fast\t", r.Torch)
	}
	fmt.Fprintln(tab)
	for _, s := range r.Sizes {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%.2f\t", sizeText(s.Bytes), timeText(s.Rejoin.Median), timeText(s.Rejoin.Mean), float64(s.Bytes)/s.Rejoin.Median/1e9)
		if s.Gloo != nil {
			fmt.Fprintf(tab, "%s\t%s\t%.2f\t", timeText(s.Gloo.Median), timeText(s.Gloo.Mean), s.Ratio)
		}
		fmt.Fprintln(tab)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	if r.Skipped != "" {
		_, err := fmt.Fprintf(w, "gloo: skipped: %s\n", r.Skipped)
		return err
	}
	return nil
}

func sizeText(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

func timeText(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Millisecond {
		return fmt.Sprintf("%.1f µs", seconds*1e6)
	}
	return fmt.Sprintf("%.2f ms", seconds*1e3)
}
