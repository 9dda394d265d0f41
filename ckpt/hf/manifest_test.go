package hf

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

const emptySHA = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func sampleManifest() *Manifest {
	return &Manifest{
		Rejoin: "0.1.0", Step: 4, WorldSize: 2, SamplesSeen: 32,
		Arguments: Arguments{"learning_rate": 1.0, "seed": int64(42), "label_names": []any{"y"}},
		DataPath:  "train.jsonl", DataDigest: emptySHA, ModelYAML: "loss: mse\n",
		Sampler: "seedable", BLAS: "gonum", Kernel: "avx2",
		Files: map[string]FileInfo{StateFile: {Size: 7, SHA256: emptySHA}},
		Extra: map[string]any{"later": map[string]any{"x": 0.5}},
	}
}

func TestManifestRoundTrip(t *testing.T) {
	m := sampleManifest()
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.Encode()
	if err != nil || string(again) != string(text) {
		t.Fatalf("two encodings differ: %v", err)
	}
	if !strings.Contains(string(text), `"learning_rate": 1.0`) || !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("text is %s", text)
	}
	back, err := DecodeManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, m) {
		t.Errorf("read back %+v, want %+v", back, m)
	}
}

func TestDecodeManifestRefuses(t *testing.T) {
	good, err := sampleManifest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, replacement, want string }{
		"syntax":        {"{", "", "extra data"},
		"list":          {string(good), "[]", "expected a dict, found list"},
		"no format":     {`"format": 1`, `"formal": 1`, `key "format"`},
		"format zero":   {`"format": 1`, `"format": 0`, `key "format"`},
		"newer":         {`"format": 1`, `"format": 2`, "newer than the 1 known here"},
		"step":          {`"step": 4`, `"step": 4.0`, `key "step": expected int, found float`},
		"no files":      {`"files"`, `"fires"`, `key "files": expected dict, found None`},
		"outside":       {`"trainer_state.json"`, `"../trainer_state.json"`, "not the name of a file in the checkpoint"},
		"no SHA":        {emptySHA + "\",\n      \"size\"", "e3\",\n      \"size\"", "the size or the SHA-256 is not one"},
		"negative size": {`"size": 7`, `"size": -7`, "the size or the SHA-256 is not one"},
		"size":          {`"size": 7`, `"size": "7"`, `file "trainer_state.json": key "size": expected int, found str`},
	} {
		text := strings.Replace(string(good), c.old, c.replacement, 1)
		if text == string(good) {
			t.Fatalf("%s: nothing replaced", name)
		}
		_, err := DecodeManifest([]byte(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want … %s", name, err, c.want)
		}
		if newer := (*ManifestFormatError)(nil); errors.As(err, &newer) != (name == "newer") {
			t.Errorf("%s: %v has the wrong type", name, err)
		}
	}
}

func TestManifestRefusesWhatHasNoJSON(t *testing.T) {
	m := sampleManifest()
	m.Arguments["odd"] = make(chan int)
	if _, err := m.Encode(); err == nil || !strings.Contains(err.Error(), `manifest.json: ["arguments"]: ["odd"]: a value of type chan int`) {
		t.Errorf("Encode: %v", err)
	}
}

func FuzzDecodeManifest(f *testing.F) {
	text, err := sampleManifest().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeManifest(data)
		if err != nil {
			return
		}
		once, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeManifest(once)
		if err != nil {
			t.Fatalf("what was written is refused: %v\n%s", err, once)
		}
		if twice, err := back.Encode(); err != nil || string(twice) != string(once) {
			t.Fatalf("not stable: %s then %s, %v", once, twice, err)
		}
	})
}
