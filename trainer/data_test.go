package trainer_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rejoin/trainer"
)

// regressionCSV writes the regression run's data as a flat CSV: x_0 … x_9, y_0.
func regressionCSV(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile(testdata("regression.jsonl"))))) {
		var row struct{ X, Y []json.Number }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		var names, cells []string
		for i, v := range row.X {
			names, cells = append(names, fmt.Sprintf("x_%d", i)), append(cells, v.String())
		}
		for i, v := range row.Y {
			names, cells = append(names, fmt.Sprintf("y_%d", i)), append(cells, v.String())
		}
		if out.Len() == 0 {
			out.WriteString(strings.Join(names, ",") + "\n")
		}
		out.WriteString(strings.Join(cells, ",") + "\n")
	}
	path := filepath.Join(t.TempDir(), "regression.csv")
	if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The format of the data changes nothing but the manifest's digest of it.
func TestSameRunFromCSV(t *testing.T) {
	request := trainer.Request{Config: testdata("regression-train.yaml"), Model: testdata("regression.yaml"), WorldSize: 2}
	lines, csv := request, request
	lines.Data, lines.OutputDir = testdata("regression.jsonl"), t.TempDir()
	csv.Data, csv.OutputDir = regressionCSV(t), t.TempDir()
	trainRanks(t, &lines)
	trainRanks(t, &csv)
	got, want := files(t, filepath.Join(csv.OutputDir, "checkpoint-6")), files(t, filepath.Join(lines.OutputDir, "checkpoint-6"))
	for name, text := range want {
		if name != "manifest.json" && got[name] != text {
			t.Errorf("%s differs from the run on JSON Lines", name)
		}
	}
}

// Every sampler is kept by the checkpoint: resumed without a word, a run ends in
// the same bytes.
func TestSamplersResume(t *testing.T) {
	for name, set := range map[string][]string{
		trainer.Sequential: nil, trainer.Distributed: nil,
		trainer.SeedableRandom: {"accelerator_config.dispatch_batches=true"},
	} {
		straight, again := t.TempDir(), t.TempDir()
		trainRanks(t, &trainer.Request{
			Config: testdata("regression-train.yaml"), Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"),
			Sampler: name, Set: append(set, "per_device_train_batch_size=3"), OutputDir: straight, WorldSize: 2,
		})
		trainRanks(t, &trainer.Request{Checkpoint: filepath.Join(straight, "checkpoint-2"), OutputDir: again, WorldSize: 2})
		sameFiles(t, filepath.Join(again, "checkpoint-6"), filepath.Join(straight, "checkpoint-6"))
	}
}

func TestResolveRefusesUnknownSampler(t *testing.T) {
	_, _, err := trainer.Resolve(&trainer.Request{
		Data: testdata("regression.jsonl"), Model: testdata("regression.yaml"), Sampler: "random", OutputDir: t.TempDir(), WorldSize: 2,
	})
	if err == nil || !strings.Contains(err.Error(), `--sampler: found "random"`) {
		t.Errorf("%v", err)
	}
}
