package hf

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTrainerStateWrittenAsFound(t *testing.T) {
	files, err := filepath.Glob("testdata/*/checkpoint-*/" + StateFile)
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d state files, %v", len(files), err)
	}
	for _, path := range files {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		state, err := DecodeTrainerState(want)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		got, err := state.Encode()
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: written again it differs (%v):\n%s", path, err, got)
		}
		if step, ok := StepOfName(filepath.Base(filepath.Dir(path))); !ok || step != state.GlobalStep() {
			t.Errorf("%s: global_step is %d", path, state.GlobalStep())
		}
	}
}

func TestTrainerStateFields(t *testing.T) {
	data, err := os.ReadFile("testdata/regression-w2/checkpoint-2/" + StateFile)
	if err != nil {
		t.Fatal(err)
	}
	s, err := DecodeTrainerState(data)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want any }{
		"GlobalStep":     {s.GlobalStep(), 2},
		"MaxSteps":       {s.MaxSteps(), 6},
		"NumTrainEpochs": {s.NumTrainEpochs(), 2},
		"TrainBatchSize": {s.TrainBatchSize(), 4},
		"Epoch":          {s.Epoch(), 0.4},
		"TotalFlos":      {s.TotalFlos(), 0.0},
		"LoggingSteps":   {s.LoggingSteps(), 1.0},
		"SaveSteps":      {s.SaveSteps(), 2.0},
		"EvalSteps":      {s.EvalSteps(), 500.0},
		"best_metric":    {s.Get("best_metric"), nil},
		"log entries":    {len(s.LogHistory()), 2},
		"logged loss":    {s.LogHistory()[1]["loss"], 2.0220508575439453},
	} {
		if c.got != c.want {
			t.Errorf("%s = %v, want %v", name, c.got, c.want)
		}
	}
}

func TestTrainerStateKeepsWhatItDoesNotKnow(t *testing.T) {
	const text = `{
  "best_metric": Infinity,
  "epoch": 1,
  "global_step": 7,
  "log_history": [
    {
      "loss": NaN,
      "step": 7
    }
  ],
  "my_callback": {
    "counts": [
      1,
      2.0
    ]
  }
}
`
	s, err := DecodeTrainerState([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if loss, ok := s.LogHistory()[0]["loss"].(float64); !ok || !math.IsNaN(loss) {
		t.Errorf("NaN was read as %v", s.LogHistory()[0]["loss"])
	}
	if got, err := s.Encode(); err != nil || string(got) != text {
		t.Errorf("Encode = %s, %v", got, err)
	}
}

func TestTrainerStateContinues(t *testing.T) {
	s := NewTrainerState()
	s.Set("epoch", 0.2)
	s.Set("global_step", 1)
	s.AppendLog(map[string]any{"loss": 0.5, "step": 1})
	snapshot := s.Clone()
	s.Set("global_step", 2)
	s.AppendLog(map[string]any{"loss": 0.25, "step": 2})

	if snapshot.GlobalStep() != 1 || len(snapshot.LogHistory()) != 1 {
		t.Errorf("the clone moved on with its original: %v", snapshot.fields)
	}
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeTrainerState(text)
	if err != nil {
		t.Fatal(err)
	}
	if back.GlobalStep() != 2 || len(back.LogHistory()) != 2 || back.Get("is_world_process_zero") != true {
		t.Errorf("read back: %v", back.fields)
	}
}

func TestTrainerStateBest(t *testing.T) {
	for text, want := range map[string]struct {
		metric float64
		found  bool
		step   int
		path   string
	}{
		`{"global_step": 9}`: {},
		`{"global_step": 9, "best_metric": null, "best_global_step": null, "best_model_checkpoint": null}`:             {},
		`{"global_step": 9, "best_metric": 1, "best_global_step": 4, "best_model_checkpoint": "out dir/checkpoint-4"}`: {1, true, 4, "out dir/checkpoint-4"},
		`{"global_step": 9, "best_metric": -Infinity}`:                                                                 {metric: math.Inf(-1), found: true},
	} {
		s, err := DecodeTrainerState([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		metric, found := s.BestMetric()
		if metric != want.metric || found != want.found || s.BestGlobalStep() != want.step || s.BestModelCheckpoint() != want.path {
			t.Errorf("%s: best %v %v at %d in %q", text, metric, found, s.BestGlobalStep(), s.BestModelCheckpoint())
		}
	}
}

func TestDecodeTrainerStateRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                 "line 1 column 1",
		`[]`:                               "expected a dict, found list",
		`{}`:                               `key "global_step" is missing`,
		`{"global_step": null}`:            `key "global_step": expected an int, found None`,
		`{"global_step": 2.5}`:             `key "global_step": expected an int, found float`,
		`{"global_step": -1}`:              `key "global_step": expected 0 or more, found -1`,
		`{"global_step": "2"}`:             `key "global_step": expected an int, found str`,
		`{"global_step": 2, "l": `:         "line 1 column 25",
		`{"global_step":` + bigInt:         "expected an int, found int",
		stateWith("epoch", `"x"`):          `key "epoch": expected a number, found str`,
		stateWith("max_steps", `9.`):       "expected ','",
		stateWith("log_history", `{}`):     `key "log_history": expected a list, found dict`,
		stateWith("log_history", `null`):   `key "log_history": expected a list, found None`,
		stateWith("log_history", `[{},1]`): `key "log_history": [1]: expected a dict, found int`,

		stateWith("best_metric", `"low"`):         `key "best_metric": expected a number, found str`,
		stateWith("best_global_step", `2.5`):      `key "best_global_step": expected an int, found float`,
		stateWith("best_model_checkpoint", `[2]`): `key "best_model_checkpoint": expected a str, found list`,
	} {
		if _, err := DecodeTrainerState([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want … %s", text, err, want)
		}
	}
}

const bigInt = " 99999999999999999999}"

func stateWith(key, value string) string { return `{"global_step": 2, "` + key + `": ` + value + `}` }

func FuzzDecodeTrainerState(f *testing.F) {
	data, err := os.ReadFile("testdata/digits-w1/checkpoint-3/" + StateFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(stateWith("log_history", `[{"loss": NaN}]`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeTrainerState(data)
		if err != nil {
			return
		}
		text, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeTrainerState(text)
		if err != nil {
			t.Fatalf("what was written is refused: %v", err)
		}
		if again, err := back.Encode(); err != nil || string(again) != string(text) {
			t.Fatalf("not stable: %s then %s, %v", text, again, err)
		}
	})
}
