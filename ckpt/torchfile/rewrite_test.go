package torchfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// others says which files do not come out as they went in, and why.
var others = map[string]string{
	"zoo/legacy.pt":                  "legacy",
	"zoo/legacy_looks_like_zip.pt":   "legacy",
	"zoo/tag_mixed_legacy.pt":        "legacy",
	"torch/legacy_module.pt":         "legacy",
	"torch/legacy_bf16.pt":           "legacy",
	"torch/legacy_views.pt":          "legacy",
	"trainer/legacy.pth":             "legacy",
	"zoo/no_crc.pt":                  "checksums are always written",
	"zoo/protocol4.pt":               "protocol 2 is always written",
	"torch/protocol0.pt":             "protocol 2 is always written",
	"torch/protocol1.pt":             "protocol 2 is always written",
	"torch/protocol3.pt":             "protocol 2 is always written",
	"torch/protocol4.pt":             "protocol 2 is always written",
	"torch/protocol5.pt":             "protocol 2 is always written",
	"torch/align_4096.pt":            "alignment is always 64",
	"trainer/checkpoint_epoch_1.pth": "cuda tags become cpu",
	"trainer/model_dp2_cuda.pth":     "cuda tags become cpu",
}

func read(t *testing.T, path string) (*File, []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(data, path, Options{Describe: true})
	if err != nil {
		t.Fatal(err)
	}
	return f, data
}

func write(t *testing.T, name string, obj any) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, name, obj); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func TestRewritingGivesTheSameBytes(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"torch/*.pt", "zoo/*.pt", "trainer/*.*", "trainer/digits/*"} {
		found, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		name, _ := strings.CutPrefix(path, "testdata/")
		t.Run(name, func(t *testing.T) {
			f, data := read(t, path)
			written := write(t, ArchiveName(path), f.Object())
			reason := others[name]
			if strings.HasPrefix(name, "zoo/tag_") {
				reason = "tags become cpu"
			}
			if same := bytes.Equal(written, data); same != (reason == "") {
				t.Errorf("same bytes: %v, exception: %q; first difference at byte %d of %d and %d", same, reason, firstDifference(written, data), len(written), len(data))
			}
			again, err := Read(written, path, Options{Describe: true})
			if err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
			if twice := write(t, ArchiveName(path), again.Object()); !bytes.Equal(twice, written) {
				t.Errorf("writing what was written differs at byte %d", firstDifference(twice, written))
			}
		})
	}
}
