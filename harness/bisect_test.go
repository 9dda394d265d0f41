package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestBisectNamesTheFirstParting(t *testing.T) {
	for name, tc := range map[string]struct {
		damage []Damage
		edit   func(t *testing.T, dir string)
		step   int
		kind   string
		rank   int
		what   string
	}{
		"equal": {},
		"a random state": {
			damage: []Damage{{Copy: "digits-mlp-w2/checkpoint-4/rng_state_1.pth", To: "regression-w2/checkpoint-4/rng_state_1.pth"}},
			step:   4, kind: "checkpoint", rank: 1, what: "rng_state_1.pth",
		},
		"a tensor": {
			damage: []Damage{{Flip: "regression-w2/checkpoint-6/model.safetensors", At: new(int64(200))}},
			step:   6, kind: "checkpoint", rank: -1, what: "fc.weight",
		},
		"a sample": {
			edit: func(t *testing.T, dir string) {
				t.Helper()
				traces, err := ReadTraces(dir)
				if err != nil {
					t.Fatal(err)
				}
				traces[1].MicroBatches[2][3] = 99
				writeTraces(t, dir, traces...)
			},
			step: 3, kind: "rows", rank: 1, what: "sample 4",
		},
		"a logged number": {
			edit: func(t *testing.T, dir string) {
				t.Helper()
				replaceInFile(t, filepath.Join(dir, "checkpoint-6/trainer_state.json"), `"learning_rate": 0.005`, `"learning_rate": 0.004`)
			},
			step: 4, kind: "log", rank: -1, what: "learning_rate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := fixture(t, "regression-w2"), fixture(t, "regression-w2", "digits-mlp-w2/checkpoint-4")
			damage(t, b, tc.damage...)
			if tc.edit != nil {
				tc.edit(t, filepath.Join(b, "regression-w2"))
			}
			f, err := Bisect(filepath.Join(a, "regression-w2"), filepath.Join(b, "regression-w2"))
			if err != nil {
				t.Fatal(err)
			}
			if tc.kind == "" {
				if f.First != nil || !strings.Contains(f.String(), "do not part") {
					t.Errorf("found %+v", f.First)
				}
				return
			}
			p := f.First
			if p == nil || p.Step != tc.step || p.Kind != tc.kind || p.Rank != tc.rank || !strings.Contains(p.What, tc.what) {
				t.Errorf("found %+v, expected %+v", p, tc)
			}
			var out bytes.Buffer
			var back Finding
			if err := f.WriteJSON(&out); err != nil || json.Unmarshal(out.Bytes(), &back) != nil || *back.First != *p {
				t.Errorf("JSON %s, %v", out.String(), err)
			}
		})
	}
}

func TestBisectRefuses(t *testing.T) {
	dir := fixture(t, "regression-w2", "regression.jsonl")
	run := filepath.Join(dir, "regression-w2")
	if _, err := Bisect(run, t.TempDir()); !errors.Is(err, ErrNothingToCompare) {
		t.Errorf("an empty run: %v", err)
	}
	for path, says := range map[string]string{
		"regression-w2/checkpoint-2": "is a checkpoint, expected the directory that holds",
		"regression.jsonl":           "is a file",
		"gone":                       "no such file",
	} {
		if _, err := Bisect(run, filepath.Join(dir, path)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// 30 micro-batches an epoch in updates of 4: seven whole ones and one of 2.
func TestGeometry(t *testing.T) {
	g := geometry{accumulation: 4, batchesPerEpoch: 30}
	for i, want := range map[int]int{0: 1, 3: 1, 4: 2, 27: 7, 28: 8, 29: 8, 30: 9, 33: 9, 34: 10} {
		if got := g.update(i); got != want {
			t.Errorf("micro-batch %d is of update %d, expected %d", i, got, want)
		}
	}
	for n, want := range map[int]int{0: 0, 1: 4, 7: 28, 8: 30, 9: 34} {
		if got := g.batches(n); got != want {
			t.Errorf("%d updates are %d micro-batches, expected %d", n, got, want)
		}
	}
	r, err := openRun(filepath.Join(fixture(t, "digits-w1/checkpoint-6"), "digits-w1"))
	if err != nil || r.geometry != g {
		t.Errorf("geometry of digits-w1: %+v, %v", r.geometry, err)
	}
}
