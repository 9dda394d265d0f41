package source

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt"
)

const trainer = "../../testdata/regression-w2/checkpoint-2"

func open(t *testing.T, path string) *Source {
	t.Helper()
	s, err := Open(path, ckpt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// safe is a safetensors file of one tensor of some dtype.
func safe(name, dtype string, data string) string {
	header := `{"` + name + `":{"dtype":"` + dtype + `","shape":[` + string(rune('0'+len(data)*2)) + `],"data_offsets":[0,` + string(rune('0'+len(data))) + `]}}`
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + data
}

func TestDirectory(t *testing.T) {
	s := open(t, trainer)
	var names []string
	for _, p := range s.Parts {
		names = append(names, p.Name)
		if p.Err != nil || len(p.Leaves) == 0 {
			t.Errorf("%s: %d leaves, %v", p.Name, len(p.Leaves), p.Err)
		}
	}
	if want := []string{"model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth", "training_args.bin", "trainer_state.json"}; !slices.Equal(names, want) || s.Kind != Directory {
		t.Errorf("%s %q", s.Kind, names)
	}
	if sd, _, err := s.Model(); err != nil || sd.Len() != 2 {
		t.Errorf("model: %v, %v", sd, err)
	}
	if s.Metadata()["format"] != "pt" || s.Tags()["cpu"] == 0 {
		t.Errorf("metadata %v, tags %v", s.Metadata(), s.Tags())
	}
	run := open(t, filepath.Dir(trainer))
	if filepath.Base(run.Path) != "checkpoint-6" || !strings.Contains(strings.Join(run.Notes, "\n"), "newest complete") {
		t.Errorf("%s: %q", run.Path, run.Notes)
	}
}

func TestTwoFormsOfWeights(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoint-2")
	if err := os.CopyFS(dir, os.DirFS(trainer)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "pytorch_model.bin"), "whatever")
	s := open(t, dir)
	if s.Parts[0].Name != "model.safetensors" || s.Parts[1].Role == Weights || !strings.Contains(strings.Join(s.Notes, "\n"), "pytorch_model.bin is left aside") {
		t.Errorf("parts %s, %s; notes %q", s.Parts[0].Name, s.Parts[1].Name, s.Notes)
	}
}

func TestShardIndex(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.safetensors"), safe("x", "F4", "ab"))
	index := filepath.Join(dir, "model.safetensors.index.json")
	write(t, index, `{"weight_map": {"x": "a.safetensors"}}`)
	s := open(t, index)
	if raw, ok := s.Parts[0].Leaves[0].Value.(*RawTensor); !ok || raw.String() != "F4[4]" || string(raw.Data) != "ab" || s.Kind != Shards {
		t.Errorf("%s, %+v", s.Kind, s.Parts[0].Leaves)
	}
	if p := s.IndexProblems(); len(p) != 0 {
		t.Errorf("problems %v", p)
	}
	for _, text := range []string{`{`, `{"weight_map": {}}`, `{"weight_map": {"x": "../a.safetensors"}}`} {
		write(t, index, text)
		if _, err := Open(index, ckpt.Options{}); err == nil {
			t.Errorf("%s was opened", text)
		}
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "page.pt"), "<!DOCTYPE html>")
	for path, says := range map[string]string{
		"": "does not exist", "page.pt": "web page", "gone.pt": "does not exist", ".": "none of a checkpoint's files",
	} {
		full := filepath.Join(dir, path)
		if path == "" {
			full = ""
		}
		if _, err := Open(full, ckpt.Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", path, err)
		}
	}
}
