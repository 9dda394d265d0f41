package tensor

import (
	"errors"
	"strings"
	"testing"
)

// Under the lenient rules every form means plain host memory
// (D01, SeungjunNah/DeepDeblur-PyTorch#28).
func TestLenientLocations(t *testing.T) {
	for _, text := range []string{"", "cpu", "cpu:0", "cpu:7", "CPU", "device", "none", "cuda:1", "mps", "npu:0", "cuda:0=cpu", "cuda:0=cuda:1,cuda:1=cpu:3"} {
		locate, err := ParseMapLocation(text, Lenient, "cpu:0")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for _, tag := range []string{"cpu", "cpu:0", "cuda:0", "cuda:3", "mps", "", "junk"} {
			if got, err := locate(tag); got != "cpu" || err != nil {
				t.Errorf("%q of tag %q: %q, %v", text, tag, got, err)
			}
		}
	}
	locate, err := ParseMapLocation("cuda:0=meta", Lenient, "")
	if err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]string{"cuda:0": "meta", "cuda:1": "cpu"} {
		if got, err := locate(tag); got != want || err != nil {
			t.Errorf("tag %s: %q, %v", tag, got, err)
		}
	}
}

func TestTorchLocationsFromText(t *testing.T) {
	for _, tc := range []struct{ text, tag, want, says string }{
		{"cpu", "cuda:0", "cpu", ""},
		{"device", "cpu", "", unknownLocation("cpu:0")},
		{"none", "cpu", "cpu", ""},
		{"none", "cuda:0", "", cudaText},
		{"", "cpu", "", unknownLocation("")},
		{"cuda0", "cpu", "", "Invalid device string: 'cuda0'"},
		{"cuda:0=cpu,cuda:1=cpu", "cuda:1", "cpu", ""},
		{"cuda:0=cpu, cuda:1=cpu", "cuda:1", "cpu", ""},
		{"cuda:0=cpu,cuda:1=cpu", "cuda:3", "", cudaText},
		{"cuda:0=device", "cuda:0", "", unknownLocation("cpu:0")},
	} {
		locate, err := ParseMapLocation(tc.text, TorchRules, "cpu:0")
		if err != nil {
			t.Errorf("%q: %v", tc.text, err)
			continue
		}
		got, err := locate(tc.tag)
		var refused *LocationError
		if tc.says == "" && (got != tc.want || err != nil) {
			t.Errorf("%q of %q: %q, %v", tc.text, tc.tag, got, err)
		} else if tc.says != "" && (!errors.As(err, &refused) || err.Error() != tc.says) {
			t.Errorf("%q of %q: %v\nwant %s", tc.text, tc.tag, err, tc.says)
		}
	}
}

func TestLocationsThatCannotBeRead(t *testing.T) {
	for text, says := range map[string]string{
		"cuda 1": "not written like a device", "=cpu": "not TAG=LOCATION", "cuda:0=": "not written like a device",
		"cuda:0=cpu,cuda:0=meta": "given twice", "cuda:0=cpu,cpu": "not TAG=LOCATION", "../x": "not written like a device",
	} {
		_, err := ParseMapLocation(text, Lenient, "cpu")
		var syntax *LocationSyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "cuda:0=cpu,cuda:1=cpu") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ParseLocationRules("strict"); err == nil || !strings.Contains(err.Error(), `"strict"`) {
		t.Errorf("rules: %v", err)
	}
	for text, want := range map[string]LocationRules{"": Lenient, "lenient": Lenient, "torch": TorchRules} {
		if got, err := ParseLocationRules(text); got != want || err != nil {
			t.Errorf("rules %q: %v, %v", text, got, err)
		}
	}
}

func TestTorchCallable(t *testing.T) {
	locate := TorchCallable(func(tag string) string {
		return map[string]string{"cuda:0": "cpu", "cuda:1": "cuda:0"}[tag]
	})
	for tag, want := range map[string]string{"cuda:0": "cpu", "cpu": "cpu"} {
		if got, err := locate(tag); got != want || err != nil {
			t.Errorf("%s: %q, %v", tag, got, err)
		}
	}
	for tag, says := range map[string]string{"cuda:1": cudaText, "cuda:2": cudaText, "cpu:1": unknownLocation("cpu:1")} {
		if _, err := locate(tag); err == nil || err.Error() != says {
			t.Errorf("%s: %v", tag, err)
		}
	}
}

func TestForeignTagsInOneLine(t *testing.T) {
	if got := ForeignTags(map[string]int{"cpu": 3}); got != "" {
		t.Errorf("only cpu: %q", got)
	}
	got := ForeignTags(map[string]int{"cpu": 1, "cuda:0": 2, "cuda:3": 1, "": 1})
	if want := `4 of 5 storages were saved on other devices ("" × 1, cuda:0 × 2, cuda:3 × 1)`; got != want {
		t.Errorf("got %q", got)
	}
}
