package harness

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rejoin/testdata"
)

// fixture copies a fixture into a directory of the test's own.
func fixture(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := copyTree(filepath.Join(dir, name), testdata.Fixtures, name); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func damage(t *testing.T, dir string, ds ...Damage) {
	t.Helper()
	for i := range ds {
		if err := ds[i].apply(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func replaceInFile(t *testing.T, path, old, new string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s does not hold %q", path, old)
	}
	write(t, path, strings.Replace(string(text), old, new, 1))
}

func TestEqualCheckpointsDoNotDiffer(t *testing.T) {
	a, b := fixture(t, "regression-w2"), fixture(t, "regression-w2")
	ds, err := CompareCheckpoints(filepath.Join(a, "regression-w2/checkpoint-4"), filepath.Join(b, "regression-w2/checkpoint-4"), 0, nil)
	if err != nil || len(ds) != 0 {
		t.Errorf("%v, %v", ds, err)
	}
}

// Each way of being another checkpoint is named by what it is about.
func TestDifferencesAreNamed(t *testing.T) {
	const here, other = "regression-w2/checkpoint-4/", "digits-mlp-w2/checkpoint-4/"
	for name, tc := range map[string]struct {
		damage []Damage
		edit   func(t *testing.T, dir string)
		part   Part
		says   string
	}{
		"moments of another step":  {[]Damage{{Copy: "regression-w2/checkpoint-2/optimizer.pt", To: here + "optimizer.pt"}}, nil, Optimizer, "step of parameter 0: found 2, expected 4 (Adam's step counter"},
		"schedule of another step": {[]Damage{{Copy: "regression-w2/checkpoint-2/scheduler.pt", To: here + "scheduler.pt"}}, nil, Scheduler, "last_epoch: found 2, expected 4 (the schedule's counter"},
		"weights of another step":  {[]Damage{{Copy: "regression-w2/checkpoint-2/model.safetensors", To: here + "model.safetensors"}}, nil, Weights, "fc.weight: found "},
		"random state of another":  {[]Damage{{Copy: other + "rng_state_1.pth", To: here + "rng_state_1.pth"}}, nil, Random, "rank 1's random state"},
		"a byte of a file":         {[]Damage{{Flip: here + "training_args.bin"}}, nil, "", "training_args.bin: found other bytes, from byte "},
		"a file too many":          {[]Damage{{Write: here + "stray.txt", Text: "x"}}, nil, "", "stray.txt: found a file, expected none"},
		"a file too few":           {[]Damage{{Delete: here + "training_args.bin"}}, nil, "", "training_args.bin: found no such file"},
		"a logged loss": {nil, func(t *testing.T, dir string) {
			t.Helper()
			replaceInFile(t, dir+"/"+here+"trainer_state.json", `"loss": 5.2`, `"loss": 6.2`)
		}, Log, "log entry of step 1: loss: found 6.2"},
		"a logged learning rate": {nil, func(t *testing.T, dir string) {
			t.Helper()
			replaceInFile(t, dir+"/"+here+"trainer_state.json", `"learning_rate": 0.008333333333333333`, `"learning_rate": 0.01`)
		}, Log, "step 2: learning_rate: found 0.01, expected 0.00833333333 (the learning-rate schedule"},
		"a step": {nil, func(t *testing.T, dir string) {
			t.Helper()
			replaceInFile(t, dir+"/"+here+"trainer_state.json", `"global_step": 4`, `"global_step": 3`)
		}, Position, "global_step: found 3, expected 4"},
		"another model's everything": {[]Damage{{Copy: other + "model.safetensors", To: here + "model.safetensors"}}, nil, Weights, "backbone.0.bias: found float32[32], expected nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			a := fixture(t, "regression-w2", "digits-mlp-w2/checkpoint-4")
			b := fixture(t, "regression-w2")
			damage(t, a, tc.damage...)
			if tc.edit != nil {
				tc.edit(t, a)
			}
			ds, err := CompareCheckpoints(filepath.Join(a, here), filepath.Join(b, here), 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ds {
				if d.Part == tc.part && strings.Contains(d.String(), tc.says) {
					return
				}
			}
			t.Errorf("differences %v, expected one of %q that says %q", ds, tc.part, tc.says)
		})
	}
}

func TestToleranceIsOfTheLargestValue(t *testing.T) {
	for _, tc := range []struct {
		found, expected []float32
		tolerance       float64
		at, count       int
	}{
		{[]float32{1, 100}, []float32{1, 100}, 0, -1, 0},
		{[]float32{1.0001, 100}, []float32{1, 100}, 0, 0, 1},
		{[]float32{1.0001, 100}, []float32{1, 100}, 1e-5, -1, 0},
		{[]float32{1.01, 100}, []float32{1, 100}, 1e-5, 0, 1},
		{[]float32{0, 3}, []float32{0, 0}, 1e-5, 1, 1},
		{[]float32{nan(), 1}, []float32{2, 1}, 1e-5, 0, 1},
		{[]float32{nan(), 1}, []float32{nan(), 1}, 0, -1, 0},
	} {
		at, s := firstApart(tc.found, tc.expected, tc.tolerance)
		if at != tc.at || s.count != tc.count {
			t.Errorf("firstApart(%v, %v, %v) = %d, %+v", tc.found, tc.expected, tc.tolerance, at, s)
		}
	}
}

func nan() float32 { var zero float32; return zero / zero }

func trace(rank, first int, batches ...[]int) *Trace {
	return &Trace{Rank: rank, WorldSize: 2, FirstStep: first, MicroBatches: batches}
}

func TestCompareTraces(t *testing.T) {
	whole := []*Trace{trace(0, 0, []int{1, 2}, []int{3, 4}, []int{5, 6}), trace(1, 0, []int{7, 8}, []int{9, 10}, []int{11, 12})}
	for name, tc := range map[string]struct {
		found []*Trace
		how   RowEquality
		says  string // "": equal
	}{
		"a resumed part":       {[]*Trace{trace(0, 1, []int{3, 4}, []int{5, 6}), trace(1, 1, []int{9, 10}, []int{11, 12})}, RowEquality{Skip: 1}, ""},
		"read ahead":           {[]*Trace{trace(0, 1, []int{3, 4}), trace(1, 1, []int{9, 10})}, RowEquality{Skip: 1}, ""},
		"a repeated batch":     {[]*Trace{trace(0, 1, []int{1, 2}, []int{3, 4}), trace(1, 1, []int{9, 10}, []int{11, 12})}, RowEquality{Skip: 1}, "trace of rank 0: rows of micro-batch 1 after step 1: found [1 2], expected [3 4]"},
		"ranks exchanged":      {[]*Trace{trace(0, 1, []int{9, 10}), trace(1, 1, []int{3, 4})}, RowEquality{Skip: 1}, "trace of rank 0"},
		"left out at the end":  {[]*Trace{trace(0, 0, []int{1, 2}), trace(1, 0, []int{7, 8})}, RowEquality{}, "found 1 micro-batches, expected 3"},
		"nothing":              {nil, RowEquality{}, "found 0 traces"},
		"one rank":             {[]*Trace{trace(0, 0)}, RowEquality{}, "found 1 ranks, expected 2"},
		"one rank, all rows":   {[]*Trace{trace(0, 1, []int{3, 4}, []int{10, 9}, []int{5, 6}, []int{11, 12})}, RowEquality{Skip: 1, PerUpdate: 4}, ""},
		"one rank, other rows": {[]*Trace{trace(0, 1, []int{3, 4}, []int{1, 9})}, RowEquality{Skip: 1, PerUpdate: 4}, "rows of update 1 after step 1"},
	} {
		t.Run(name, func(t *testing.T) {
			ds := compareTraces(tc.found, whole, tc.how)
			if tc.says == "" && len(ds) > 0 || tc.says != "" && (len(ds) == 0 || !strings.Contains(ds[0].String(), tc.says)) {
				t.Errorf("differences %v, expected %q", ds, tc.says)
			}
		})
	}
}

func writeTraces(t *testing.T, dir string, traces ...*Trace) {
	t.Helper()
	for _, tr := range traces {
		text, err := json.Marshal(tr)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "trace-rank"+string(rune('0'+tr.Rank))+".json"), string(text))
	}
}

func TestReadTraces(t *testing.T) {
	dir := t.TempDir()
	if got, err := ReadTraces(dir); err != nil || got != nil {
		t.Errorf("none: %v, %v", got, err)
	}
	writeTraces(t, dir, trace(0, 3, []int{1}), trace(1, 3, []int{2}))
	got, err := ReadTraces(dir)
	if err != nil || len(got) != 2 || got[1].FirstStep != 3 || got[1].MicroBatches[0][0] != 2 {
		t.Errorf("two: %v, %v", got, err)
	}
	for name, text := range map[string]string{"not JSON": "{", "another rank": `{"rank": 5}`, "negative": `{"rank": 1, "first_step": -1}`} {
		write(t, filepath.Join(dir, "trace-rank1.json"), text)
		if _, err := ReadTraces(dir); err == nil || !strings.Contains(err.Error(), "trace-rank1.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
