package torchfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"rejoin/pyobj"
)

// fuzzRead holds any bytes to this: no panic and no runaway; what can be read
// can be looked at, and if it can be written, comes back as the same bytes.
func fuzzRead(f *testing.F, o Options) {
	f.Helper()
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Read(data, "fuzz.pt", o)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error says nothing")
			}
			return
		}
		var first, second bytes.Buffer
		if err := Write(&first, "x", file.Object()); err != nil {
			return
		}
		again, err := Read(first.Bytes(), "again.pt", Options{Describe: true})
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		if err := Write(&second, "x", again.Object()); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("written again it differs: %v", err)
		}
		pyobj.TypeName(file.Object())
	})
}

func addFiles(f *testing.F, patterns ...string) {
	f.Helper()
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(paths) == 0 {
			f.Fatal(pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
}

func FuzzZip(f *testing.F) {
	addFiles(f, "torch/buffer.pt", "torch/numpy_more.pt", "torch/strings.pt", "zoo/tied.pt", "zoo/views.pt", "zoo/containers.pt", "bad/*.pt")
	f.Add(plainArchive(f, storage10))
	fuzzRead(f, Options{Describe: true})
}

func FuzzLegacy(f *testing.F) {
	addFiles(f, "zoo/legacy.pt", "torch/legacy_*.pt")
	f.Add(legacyOf("K\x03", "(U\x019K\x07K\x03t", "]U\x017a", 10, string(counting(10).Data)))
	fuzzRead(f, Options{})
}

func FuzzTar(f *testing.F) {
	addFiles(f, "bad/tar.pt")
	f.Add(tarOf(&testing.T{}, nil))
	fuzzRead(f, Options{})
}

func FuzzTrainingArgs(f *testing.F) {
	addFiles(f, "trainer/training_args.bin", "torch/namespace.pt", "torch/opaque.pt", "torch/module.pt")
	fuzzRead(f, Options{Describe: true})
}
