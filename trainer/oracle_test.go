package trainer_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rejoin/ckpt/hf"
	"rejoin/pyobj"
	"rejoin/tensor"
	"rejoin/trainer"
)

// A trainerRun is one uninterrupted run of the real Trainer in testdata.
type trainerRun struct {
	name, data, model, config string
	worldSize                 int
	steps                     []int // its checkpoints
}

var trainerRuns = []trainerRun{
	{"regression-w2", "regression.jsonl", "regression.yaml", "regression-train.yaml", 2, []int{2, 4, 6}},
	{"digits-mlp-w2", "digits.jsonl", "digits-mlp.yaml", "digits-mlp-train.yaml", 2, []int{4, 8, 12, 14}},
	{"digits-epoch-w2", "digits.jsonl", "digits-small.yaml", "digits-epoch-train.yaml", 2, []int{9, 18, 27}},
	{"digits-w1", "digits.jsonl", "digits-small.yaml", "digits-w1-train.yaml", 1, []int{3, 6, 9, 12, 15, 16}},
}

func testdata(parts ...string) string {
	return filepath.Join(append([]string{"..", "testdata"}, parts...)...)
}

func checkpointDir(step int) string { return "checkpoint-" + strconv.Itoa(step) }

// From every checkpoint of every run, a resume must reproduce each later one.
func TestResumeReproducesTheTrainersLaterCheckpoints(t *testing.T) {
	for _, run := range trainerRuns {
		for i, from := range run.steps[:len(run.steps)-1] {
			t.Run(fmt.Sprintf("%s from %d", run.name, from), func(t *testing.T) {
				t.Parallel()
				out := t.TempDir()
				trainRanks(t, &trainer.Request{
					Checkpoint: testdata(run.name, checkpointDir(from)), Data: testdata(run.data), Model: testdata(run.model),
					OutputDir: out, WorldSize: run.worldSize, Trace: true,
				})
				for _, step := range run.steps[i+1:] {
					compareCheckpoints(t, run, filepath.Join(out, checkpointDir(step)), testdata(run.name, checkpointDir(step)), from)
				}
				compareRows(t, run, out)
			})
		}
	}
}

// From the weights that a run began with, training reproduces the whole run.
func TestTrainingFromInitialWeightsReproducesTheTrainersRun(t *testing.T) {
	for _, run := range trainerRuns {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			trainRanks(t, &trainer.Request{
				Init: testdata(run.name, "initial_state_dict.pt"), Config: testdata(run.config),
				Data: testdata(run.data), Model: testdata(run.model),
				OutputDir: out, WorldSize: run.worldSize, Trace: true,
			})
			for _, step := range run.steps {
				compareCheckpoints(t, run, filepath.Join(out, checkpointDir(step)), testdata(run.name, checkpointDir(step)), 0)
			}
			compareRows(t, run, out)
		})
	}
}

func openCheckpoint(t *testing.T, dir string) *hf.Checkpoint {
	t.Helper()
	c, err := hf.Open(dir, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// must unwraps a result that cannot fail in a sound test.
func must[T any](t *testing.T) func(v T, err error) T { //nolint:thelper // the function it returns is the helper
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// compareCheckpoints holds our checkpoint against the Trainer's: weights within
// 1e-6 and moments within 5e-6 of the tensor's largest value; counters, learning
// rates and the scheduler equal; the log's loss and grad_norm within 1e-5.
func compareCheckpoints(t *testing.T, run trainerRun, oursDir, theirsDir string, from int) {
	t.Helper()
	ours, theirs := openCheckpoint(t, oursDir), openCheckpoint(t, theirsDir)
	what := filepath.Base(oursDir)

	w, want := must[*tensor.StateDict](t)(ours.Weights()), must[*tensor.StateDict](t)(theirs.Weights())
	for _, name := range want.Names() {
		a, ok := w.Get(name)
		if !ok {
			t.Fatalf("%s: weight %s is missing", what, name)
		}
		b, _ := want.Get(name)
		compareTensors(t, what+" "+name, a, b, 1e-6)
	}
	compareOptimizers(t, what, must[*pyobj.Dict](t)(ours.Optimizer()), must[*pyobj.Dict](t)(theirs.Optimizer()))
	compareValues(t, what+" scheduler", must[*pyobj.Dict](t)(ours.Scheduler()), must[*pyobj.Dict](t)(theirs.Scheduler()))
	compareStates(t, run, what, must[*hf.TrainerState](t)(ours.State()), must[*hf.TrainerState](t)(theirs.State()), from)
	for rank := range run.worldSize {
		a := must[*hf.RandomState](t)(ours.RandomState(rank, run.worldSize))
		b := must[*hf.RandomState](t)(theirs.RandomState(rank, run.worldSize))
		if !slices.Equal(a.CPU, b.CPU) {
			t.Errorf("%s: rank %d's random state differs", what, rank)
		}
	}
}

func floats(t *testing.T, v *tensor.Tensor) []float32 {
	t.Helper()
	out := make([]float32, v.NumElements())
	if err := v.ReadFloat32(out); err != nil {
		t.Fatal(err)
	}
	return out
}

// compareTensors allows a difference of tolerance times the largest value of want.
func compareTensors(t *testing.T, what string, got, want *tensor.Tensor, tolerance float64) {
	t.Helper()
	if !got.SameShape(want.Shape) || got.DType != want.DType {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
	a, b := floats(t, got), floats(t, want)
	largest, worst := 0.0, 0.0
	for i := range a {
		largest = max(largest, math.Abs(float64(b[i])))
		if d := math.Abs(float64(a[i]) - float64(b[i])); d > worst || d != d {
			worst = d
		}
	}
	if !(worst <= tolerance*largest) {
		t.Errorf("%s: off by %.2g of its largest value, allowed %.2g", what, worst/largest, tolerance)
	}
}

func compareOptimizers(t *testing.T, what string, got, want *pyobj.Dict) {
	t.Helper()
	compareValues(t, what+" param_groups", get(t, got, "param_groups"), get(t, want, "param_groups"))
	wantState, gotState := get(t, want, "state").(*pyobj.Dict), get(t, got, "state").(*pyobj.Dict)
	if gotState.Len() != wantState.Len() {
		t.Fatalf("%s: the optimizer holds %d parameters, want %d", what, gotState.Len(), wantState.Len())
	}
	for _, e := range wantState.Entries() {
		g, w := get(t, gotState, e.Key).(*pyobj.Dict), e.Value.(*pyobj.Dict)
		for key, tolerance := range map[string]float64{"step": 0, "exp_avg": 5e-6, "exp_avg_sq": 5e-6} {
			compareTensors(t, fmt.Sprintf("%s parameter %v %s", what, e.Key, key), get(t, g, key).(*tensor.Tensor), get(t, w, key).(*tensor.Tensor), tolerance)
		}
	}
}

func get(t *testing.T, d *pyobj.Dict, key any) any {
	t.Helper()
	v, ok := d.Get(key)
	if !ok {
		t.Fatalf("key %v is missing", key)
	}
	return v
}

// compareValues wants equal Python values, bit for bit.
func compareValues(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := render(got), render(want); g != w {
		t.Errorf("%s differs\n got %s\nwant %s", what, g, w)
	}
}

// render spells a plain Python value out.
func render(v any) string {
	var b strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case *pyobj.Dict:
			b.WriteString("{")
			for _, e := range v.Entries() {
				walk(e.Key)
				b.WriteString(": ")
				walk(e.Value)
				b.WriteString(", ")
			}
			b.WriteString("}")
		case *pyobj.List, *pyobj.Tuple:
			items, _ := pyobj.AsItems(v)
			b.WriteString("[")
			for _, item := range items {
				walk(item)
				b.WriteString(", ")
			}
			b.WriteString("]")
		case float64:
			b.WriteString(strconv.FormatFloat(v, 'x', -1, 64))
		default:
			fmt.Fprintf(&b, "%#v", v)
		}
	}
	walk(v)
	return b.String()
}

// compareStates wants equal trainer_state.json but for the log's measured
// numbers, which may be off by 1e-5 of their size.
func compareStates(t *testing.T, run trainerRun, what string, got, want *hf.TrainerState, from int) {
	t.Helper()
	gotLog, wantLog := got.LogHistory(), want.LogHistory()
	if len(gotLog) != len(wantLog) {
		t.Fatalf("%s: the log has %d entries, want %d", what, len(gotLog), len(wantLog))
	}
	for i, w := range wantLog {
		g := gotLog[i]
		for _, key := range []string{"epoch", "step", "learning_rate"} {
			if g[key] != w[key] {
				t.Errorf("%s: log entry %d: %s = %v, want %v", what, i, key, g[key], w[key])
			}
		}
		for _, key := range []string{"loss", "grad_norm"} {
			if key == "loss" && spansResume(run, w, from) {
				continue // see TestLogAfterResumeFromTheTrainersCheckpoint
			}
			a, b := g[key].(float64), w[key].(float64)
			if !(math.Abs(a-b) <= 1e-5*math.Abs(b)) {
				t.Errorf("%s: log entry %d: %s = %v, want %v", what, i, key, a, b)
			}
		}
	}
	g, w := got.Clone(), want.Clone()
	g.Set("log_history", []any{})
	w.Set("log_history", []any{})
	a, b := must[[]byte](t)(g.Encode()), must[[]byte](t)(w.Encode())
	if string(a) != string(b) {
		t.Errorf("%s: trainer_state.json differs\n got %s\nwant %s", what, a, b)
	}
}

// spansResume tells a log entry whose mean includes steps before the checkpoint
// that was resumed: the Trainer's checkpoints do not hold their losses.
func spansResume(run trainerRun, entry map[string]any, from int) bool {
	step := int(entry["step"].(int64))
	return run.name == "digits-epoch-w2" && from%2 == 1 && step == from+1
}

// compareRows wants each rank's rows equal to those the real ranks fetched.
func compareRows(t *testing.T, run trainerRun, out string) {
	t.Helper()
	for rank := range run.worldSize {
		name := fmt.Sprintf("trace-rank%d.json", rank)
		ours, theirs := readTrace(t, filepath.Join(out, name)), readTrace(t, testdata(run.name, name))
		skip := 0
		if ours.FirstStep > 0 {
			skip = run.microBatches(ours.FirstStep)
		}
		if len(ours.MicroBatches) == 0 {
			t.Fatalf("%s is empty", name)
		}
		for i, rows := range ours.MicroBatches {
			if !slices.Equal(rows, theirs.MicroBatches[skip+i]) {
				t.Fatalf("rank %d, micro-batch %d after step %d: rows %v, want %v", rank, i, ours.FirstStep, rows, theirs.MicroBatches[skip+i])
			}
		}
		if total := skip + len(ours.MicroBatches); total != run.microBatches(run.steps[len(run.steps)-1]) {
			t.Errorf("rank %d trained up to micro-batch %d, want %d", rank, total, run.microBatches(run.steps[len(run.steps)-1]))
		}
	}
}

// microBatches is how many micro-batches each rank trains in the first steps updates.
func (run trainerRun) microBatches(steps int) int {
	switch run.name {
	case "digits-mlp-w2": // 19 batches an epoch in updates of 2
		return steps/10*19 + steps%10*2
	case "digits-w1": // 30 batches an epoch in updates of 4
		return steps/8*30 + steps%8*4
	}
	return steps
}

type rowTrace struct {
	FirstStep    int       `json:"first_step"`
	MicroBatches [][]int   `json:"micro_batches"`
	Losses       []float64 `json:"losses"` // null leaves 0
}

func readTrace(t *testing.T, path string) rowTrace {
	t.Helper()
	var trace rowTrace
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile(path)), &trace); err != nil {
		t.Fatal(err)
	}
	return trace
}
