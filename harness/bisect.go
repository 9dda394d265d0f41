package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rejoin/ckpt/hf"
	"rejoin/pyobj"
)

// Parting is a place where two runs part.
type Parting struct {
	Step int    `json:"step"` // the first update whose outcome is another; 0: before any
	Kind string `json:"kind"` // rows, log or checkpoint
	// Rank is the one it concerns; -1: all.
	Rank int    `json:"rank"`
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Finding is what [Bisect] found.
type Finding struct {
	A string `json:"run_a"`
	B string `json:"run_b"`
	// First is the first place where the runs part; nil if they do not.
	First *Parting `json:"first"`
	// Others are the first places of the other kinds, in order of steps.
	Others []Parting `json:"others,omitempty"`
	// Compared says what was looked at, and what could not be.
	Compared []string `json:"compared"`
}

// ErrNothingToCompare says that two runs have nothing in common to look at.
var ErrNothingToCompare = errors.New("nothing to compare: the runs have no checkpoint of the same step, no common log entry and no traces")

// Bisect finds the first place where the runs in two output directories part:
// by the rows of their traces, their logged numbers, and every tensor of the
// checkpoints that both have. All is compared bit for bit.
func Bisect(dirA, dirB string) (*Finding, error) {
	b := &bisection{Finding: Finding{A: dirA, B: dirB}}
	var err error
	if b.a, err = openRun(dirA); err != nil {
		return nil, err
	}
	if b.b, err = openRun(dirB); err != nil {
		return nil, err
	}
	b.rows()
	b.log()
	if err := b.checkpoints(); err != nil {
		return nil, err
	}
	if !b.some {
		return nil, ErrNothingToCompare
	}
	slices.SortStableFunc(b.found, func(x, y Parting) int { return x.Step - y.Step })
	if len(b.found) > 0 {
		b.First, b.Others = &b.found[0], b.found[1:]
	}
	return &b.Finding, nil
}

// finishedRun is what a run left.
type finishedRun struct {
	dir         string
	checkpoints []hf.Found
	traces      []*Trace
	log         []map[string]any
	steps       int // updates done, by the newest checkpoint that can be read
	geometry    geometry
}

// geometry is how micro-batches make updates and epochs.
type geometry struct {
	accumulation    int
	batchesPerEpoch int // 0: unknown
}

// update is the number, from 1, of the update that a rank's i-th micro-batch of
// the whole run belongs to. The last update of an epoch takes what is left.
func (g geometry) update(i int) int {
	if g.batchesPerEpoch == 0 {
		return i/g.accumulation + 1
	}
	perEpoch := (g.batchesPerEpoch + g.accumulation - 1) / g.accumulation
	return i/g.batchesPerEpoch*perEpoch + i%g.batchesPerEpoch/g.accumulation + 1
}

// batches is how many micro-batches of each rank the first n updates have.
func (g geometry) batches(n int) int {
	if g.batchesPerEpoch == 0 {
		return n * g.accumulation
	}
	perEpoch := (g.batchesPerEpoch + g.accumulation - 1) / g.accumulation
	return n/perEpoch*g.batchesPerEpoch + n%perEpoch*g.accumulation
}

func openRun(dir string) (*finishedRun, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file, expected the output directory of a run", dir)
	}
	r := &finishedRun{dir: dir, geometry: geometry{accumulation: 1}}
	if r.checkpoints, err = hf.List(dir); err != nil {
		return nil, err
	}
	if hf.IsCheckpoint(dir) {
		return nil, fmt.Errorf("%s is a checkpoint, expected the directory that holds a run's checkpoints: %s", dir, filepath.Dir(filepath.Clean(dir)))
	}
	if r.traces, err = ReadTraces(dir); err != nil {
		return nil, err
	}
	for _, found := range slices.Backward(r.checkpoints) {
		if r.newest(found.Path) == nil {
			break
		}
	}
	return r, nil
}

// newest takes log and geometry from a checkpoint.
func (r *finishedRun) newest(path string) error {
	c, err := hf.Open(path, hf.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	state, err := c.State()
	if err != nil {
		return err
	}
	r.log, r.steps = state.LogHistory(), state.GlobalStep()
	args := hf.Arguments{}
	if m, err := c.Manifest(); err == nil && m != nil {
		args = m.Arguments
	} else if saved, ok, err := c.TrainingArgs(); err == nil && ok {
		args = saved
	}
	if n, err := args.Int("gradient_accumulation_steps", 1); err == nil && n > 0 {
		r.geometry.accumulation = n
	}
	// The Trainer's epoch is epochs done + micro-batches of this one / those of a whole one.
	for _, entry := range append(slices.Clone(r.log), map[string]any{"step": int64(r.steps), "epoch": state.Epoch()}) {
		step, err1 := pyobj.AsFloat(entry["step"])
		epoch, err2 := pyobj.AsFloat(entry["epoch"])
		if err1 == nil && err2 == nil && epoch > 0 && epoch < 1 {
			r.geometry.batchesPerEpoch = int(math.Round(step * float64(r.geometry.accumulation) / epoch))
		}
	}
	return nil
}

// bisection is a comparison of two runs under way.
type bisection struct {
	Finding

	a, b  *finishedRun
	found []Parting // at most one of a kind
	some  bool      // something was compared
}

func (b *bisection) note(format string, args ...any) {
	b.Compared = append(b.Compared, fmt.Sprintf(format, args...))
}

// rows compares what was read, update by update: by rank, or over all ranks
// where the runs have different numbers of them.
func (b *bisection) rows() {
	for _, r := range []*finishedRun{b.a, b.b} {
		if len(r.traces) == 0 {
			b.note("rows: not compared, %s has no trace-rankR.json (run with --trace)", r.dir)
			return
		}
	}
	x, y := b.a.updates(), b.b.updates()
	n := 0
	for _, step := range sortedKeys(x) {
		other, ok := y[step]
		if !ok {
			continue
		}
		n++
		if p := partRows(step, x[step], other); p != nil {
			b.found = append(b.found, *p)
			break
		}
	}
	b.some = b.some || n > 0
	b.note("rows: %d updates of %d and %d ranks", n, len(b.a.traces), len(b.b.traces))
}

// updates are the rows of each whole update, by rank.
func (r *finishedRun) updates() map[int][][]int {
	out := map[int][][]int{}
	for rank, t := range r.traces {
		at := r.geometry.batches(t.FirstStep)
		for i, rows := range t.MicroBatches {
			step := r.geometry.update(at + i)
			if r.steps > 0 && step > r.steps {
				break // read ahead
			}
			if out[step] == nil {
				out[step] = make([][]int, len(r.traces))
			}
			out[step][rank] = append(out[step][rank], rows...)
		}
	}
	return out
}

func partRows(step int, a, b [][]int) *Parting {
	if len(a) != len(b) {
		x, y := slices.Concat(a...), slices.Concat(b...)
		slices.Sort(x)
		slices.Sort(y)
		if slices.Equal(x, y) {
			return nil
		}
		return &Parting{step, "rows", -1, "rows of all ranks", fmt.Sprint(x), fmt.Sprint(y)}
	}
	for rank := range a {
		if slices.Equal(a[rank], b[rank]) {
			continue
		}
		for i := range min(len(a[rank]), len(b[rank])) {
			if a[rank][i] != b[rank][i] {
				return &Parting{step, "rows", rank, fmt.Sprintf("sample %d of the update", i+1), "row " + strconv.Itoa(a[rank][i]), "row " + strconv.Itoa(b[rank][i])}
			}
		}
		return &Parting{step, "rows", rank, "number of samples", strconv.Itoa(len(a[rank])), strconv.Itoa(len(b[rank]))}
	}
	return nil
}

// log compares the entries of the same steps.
func (b *bisection) log() {
	byStep := map[string]map[string]any{}
	for _, e := range b.b.log {
		byStep[describe(e["step"])] = e
	}
	n, apart := 0, false
	for _, e := range b.a.log {
		other, ok := byStep[describe(e["step"])]
		if !ok || apart {
			continue
		}
		n++
		if ds := compareLogs([]map[string]any{e}, []map[string]any{other}, 0); len(ds) > 0 {
			step, _ := pyobj.AsInt(e["step"])
			_, key, _ := strings.Cut(ds[0].What, ": ")
			b.found = append(b.found, Parting{int(step), "log", -1, key, ds[0].Found, ds[0].Expected})
			apart = true
		}
	}
	b.some = b.some || n > 0
	b.note("log: %d entries of the same steps", n)
}

// checkpoints compares the checkpoints that both have, from the first on.
func (b *bisection) checkpoints() error {
	var steps []string
	for _, x := range b.a.checkpoints {
		i := slices.IndexFunc(b.b.checkpoints, func(y hf.Found) bool { return x.Step == y.Step })
		if i < 0 {
			continue
		}
		b.some = true
		steps = append(steps, strconv.Itoa(x.Step))
		ds, err := CompareCheckpoints(x.Path, b.b.checkpoints[i].Path, 0, nil)
		if err != nil {
			return err
		}
		if len(ds) > 0 {
			d := ds[0]
			b.found = append(b.found, Parting{x.Step, "checkpoint", rankOf(d), strings.TrimSuffix(d.Where+": "+d.What, ": "), d.Found, d.Expected})
			break
		}
	}
	b.note("checkpoints: of steps %s", cmpOr(strings.Join(steps, ", "), "none"))
	return nil
}

func cmpOr(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// rankOf is the rank whose random state differs; -1 for what all ranks share.
func rankOf(d Difference) int {
	var rank int
	if _, err := fmt.Sscanf(d.What, "rank %d's", &rank); err == nil {
		return rank
	}
	return -1
}

// WriteJSON writes the finding as JSON.
func (f *Finding) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(f)
}

// String tells the finding to a person.
func (f *Finding) String() string {
	var b strings.Builder
	if f.First == nil {
		fmt.Fprintf(&b, "%s and %s do not part.\n", f.A, f.B)
	} else {
		fmt.Fprintf(&b, "%s and %s part %s:\n", f.A, f.B, f.First.place())
		f.First.write(&b, f.A, f.B)
	}
	for _, p := range f.Others {
		fmt.Fprintf(&b, "then %s:\n", p.place())
		p.write(&b, f.A, f.B)
	}
	b.WriteString("compared:\n")
	for _, line := range f.Compared {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}

func (p *Parting) place() string {
	text := fmt.Sprintf("at step %d", p.Step)
	switch p.Kind {
	case "checkpoint":
		text = fmt.Sprintf("by step %d, in its checkpoint", p.Step)
	case "rows":
		text += ", in the rows read"
	default:
		text += ", in the log"
	}
	if p.Rank >= 0 {
		text += fmt.Sprintf(", on rank %d", p.Rank)
	}
	return text
}

func (p *Parting) write(b *strings.Builder, runA, runB string) {
	fmt.Fprintf(b, "  %s\n    %s: %s\n    %s: %s\n", p.What, runA, p.A, runB, p.B)
}
