package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Trace is what one rank trained on, in the file trace-rankR.json that
// `launch … --trace` and the harness' own scripts write.
type Trace struct {
	Rank      int `json:"rank"`
	WorldSize int `json:"world_size"`
	// FirstStep is how many updates were done before the first micro-batch here.
	FirstStep    int     `json:"first_step"`
	MicroBatches [][]int `json:"micro_batches"`
}

// ReadTraces reads the traces in a run's directory by rank; nil if it has none.
func ReadTraces(dir string) ([]*Trace, error) {
	var out []*Trace
	for rank := 0; ; rank++ {
		path := filepath.Join(dir, "trace-rank"+strconv.Itoa(rank)+".json")
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var t Trace
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if t.Rank != rank || t.FirstStep < 0 {
			return nil, fmt.Errorf("%s: says rank %d and first_step %d, expected rank %d", path, t.Rank, t.FirstStep, rank)
		}
		out = append(out, &t)
	}
}

// compareTraces compares what was read with what another run read.
func compareTraces(found, expected []*Trace, how RowEquality) []Difference {
	switch {
	case len(found) == 0 || len(expected) == 0:
		return []Difference{{Where: "traces", Found: fmt.Sprintf("%d traces", len(found)), Expected: "traces to compare", Means: "was it run with --trace?"}}
	case how.PerUpdate > 0:
		return compareUpdates(found, expected, how)
	case len(found) != len(expected):
		return []Difference{{Where: "traces", Found: fmt.Sprintf("%d ranks", len(found)), Expected: strconv.Itoa(len(expected)), Means: meansRows}}
	}
	var out []Difference
	for rank, t := range found {
		other := expected[rank].MicroBatches
		if d, same := compareRows(t.MicroBatches, other[min(how.Skip, len(other)):], 1); !same {
			d.Where = fmt.Sprintf("trace of rank %d", rank)
			d.What += fmt.Sprintf(" after step %d", t.FirstStep)
			out = append(out, d)
		}
	}
	return out
}

// compareRows compares micro-batches in order. One of the two may have up to
// ahead more at its end: loaders read ahead.
func compareRows(found, expected [][]int, ahead int) (Difference, bool) {
	for i := range min(len(found), len(expected)) {
		if !slices.Equal(found[i], expected[i]) {
			return Difference{
				What:  fmt.Sprintf("rows of micro-batch %d", i+1),
				Found: fmt.Sprint(found[i]), Expected: fmt.Sprint(expected[i]), Means: meansRows,
			}, false
		}
	}
	if max(len(found)-len(expected), len(expected)-len(found)) > ahead || len(found) == 0 && len(expected) > 0 {
		return Difference{
			What: "rows", Found: fmt.Sprintf("%d micro-batches", len(found)),
			Expected: strconv.Itoa(len(expected)), Means: meansRows,
		}, false
	}
	return Difference{}, true
}

// compareUpdates compares the rows of each update over all ranks, in no order.
func compareUpdates(found, expected []*Trace, how RowEquality) []Difference {
	a, b := updateRows(found, how.PerUpdate), updateRows(expected, how.PerUpdate)
	d, same := compareRows(a, b[min(how.Skip, len(b)):], 1)
	if same {
		return nil
	}
	d.Where = "traces of all ranks"
	d.What = strings.Replace(d.What, "micro-batch", "update", 1) + fmt.Sprintf(" after step %d", found[0].FirstStep)
	return []Difference{d}
}

// updateRows cuts the traces, which hold so many rows an update, into updates.
func updateRows(traces []*Trace, rowsPerUpdate int) [][]int {
	var out [][]int
	var update []int
	for i := 0; ; i++ {
		some := false
		for _, t := range traces {
			if i < len(t.MicroBatches) {
				some = true
				update = append(update, t.MicroBatches[i]...)
			}
		}
		if !some {
			return out
		}
		if len(update) >= rowsPerUpdate {
			slices.Sort(update)
			out = append(out, update)
			update = nil
		}
	}
}
