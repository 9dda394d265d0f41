package bench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"rejoin/ckpt/internal/bytesize"
)

// collect takes over the measures and compares them.
func (r *Result) collect(ops []*operation) {
	for _, op := range ops {
		if op.Operation != "open" && op.Seconds > 0 {
			op.GBPerSecond = float64(r.StateBytes) / op.Seconds / 1e9
		}
		r.Measures = append(r.Measures, op.Measure)
	}
	load, save := r.find("rejoin", "load", "torch file"), r.find("rejoin", "save", "torch file")
	mmap, whole := r.find("torch", "load", "mmap=True"), r.find("torch", "load", "")
	r.Ratios = Ratios{
		LoadOfTorch:     ratio(load.GBPerSecond, max(mmap.GBPerSecond, whole.GBPerSecond)),
		LoadOfTorchMmap: ratio(load.GBPerSecond, mmap.GBPerSecond),
		SaveOfTorch:     ratio(save.GBPerSecond, r.find("torch", "save", "").GBPerSecond),
		SaveOfPlain:     ratio(save.GBPerSecond, r.find("plain", "save", "").GBPerSecond),
	}
	if load.Own != nil {
		r.Ratios.OwnOfState = ratio(float64(*load.Own), float64(r.StateBytes))
	}
}

func (r *Result) find(who, operation, how string) Measure {
	for _, m := range r.Measures {
		if m.Who == who && m.Operation == operation && m.How == how {
			return m
		}
	}
	return Measure{}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// WriteText writes a table for people; heading, if not nil, decorates its top.
func (r *Result) WriteText(w io.Writer, heading func(string) string) error {
	if heading == nil {
		heading = func(s string) string { return s }
	}
	top := fmt.Sprintf("weights and Adam's moments, %s in %d tensors; the fastest of %d rounds, from the page cache, not synced",
		bytesize.Format(r.StateBytes), r.Tensors, r.Rounds)
	if _, err := fmt.Fprintln(w, heading(top)); err != nil {
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tab, "\ttime\tGB/s\town memory\twith mapped files\t\n")
	for _, m := range r.Measures {
		speed := "-"
		if m.GBPerSecond > 0 {
			speed = fmt.Sprintf("%.2f", m.GBPerSecond)
		}
		fmt.Fprintf(tab, "%s\t%.1f ms\t%s\t%s\t%s\t\n", m.name(), m.Seconds*1e3, speed, bytesOf(m.Own), bytesOf(m.Resident))
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	for _, c := range []struct {
		ratio float64
		text  string
	}{
		{r.Ratios.LoadOfTorch, "load: %.2f × the speed of torch's faster one\n"},
		{r.Ratios.LoadOfTorchMmap, "load: %.2f × the speed of torch.load(mmap=True) and a copy\n"},
		{r.Ratios.OwnOfState, "load: %.2f × the state in memory of its own\n"},
		{r.Ratios.SaveOfTorch, "save: %.2f × the speed of torch.save\n"},
		{r.Ratios.SaveOfPlain, "save: %.2f × the speed of a plain write\n"},
	} {
		if c.ratio > 0 {
			if _, err := fmt.Fprintf(w, c.text, c.ratio); err != nil {
				return err
			}
		}
	}
	for _, h := range r.Hosts {
		if _, err := fmt.Fprintf(w, "loaded by %d process(es) at once: %s of their own, %s of the file in memory; beside what they loaded %.2f × the state\n",
			h.Processes, bytesize.Format(h.Own), bytesize.Format(h.Shared), h.BesideOfState); err != nil {
			return err
		}
	}
	if r.Skipped != "" {
		_, err := fmt.Fprintf(w, "torch: skipped: %s\n", r.Skipped)
		return err
	}
	return nil
}

func (m Measure) name() string {
	switch {
	case m.Who == "plain":
		return "plain write"
	case m.Who == "torch" && m.How != "" && m.Operation == "load":
		return fmt.Sprintf("torch.load(%s), copied", m.How)
	case m.Who == "torch" && m.How != "":
		return fmt.Sprintf("torch.load(%s), opened", m.How)
	case m.Who == "torch":
		return "torch." + m.Operation
	}
	return fmt.Sprintf("%s %s, %s", m.Who, m.Operation, m.How)
}

func bytesOf(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return bytesize.Format(*n)
}
