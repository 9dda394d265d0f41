package torchfile

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

func sampleObject() (*pyobj.Dict, map[string][]float32) {
	values := map[string][]float32{"a": {1, 2, 3, 4, 5, 6}, "b": {-1, 0.5}}
	base := tensor.FromFloat32(values["a"], 2, 3)
	row := *base
	row.Shape, row.Stride, row.Offset = []int{3}, []int{1}, 3
	return pyobj.NewDict("a", base, "row", &row, "b", tensor.FromFloat32(values["b"], 2), "n", int64(7)), values
}

func TestWriteLegacyIsRead(t *testing.T) {
	obj, values := sampleObject()
	tags := []string{"cuda:0", "cuda:3"}
	var out bytes.Buffer
	if err := WriteLegacy(&out, obj, func(i int) string { return tags[i] }); err != nil {
		t.Fatal(err)
	}
	f, err := Read(out.Bytes(), "legacy.pt", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f.Format != Legacy || !reflect.DeepEqual(f.Tags(), map[string]int{"cuda:0": 1, "cuda:3": 1}) {
		t.Errorf("format %v with tags %v", f.Format, f.Tags())
	}
	d, _ := pyobj.AsDict(f.Object())
	for name, want := range map[string][]float32{"a": values["a"], "b": values["b"], "row": values["a"][3:]} {
		v, _ := d.Get(name)
		x, err := pyobj.AsTensor(v)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(want))
		if err := x.ReadFloat32(got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %v, %v, want %v", name, got, err, want)
		}
	}
}

func TestWriteTagged(t *testing.T) {
	obj, _ := sampleObject()
	var plain, tagged bytes.Buffer
	if err := Write(&plain, "x", obj); err != nil {
		t.Fatal(err)
	}
	if err := WriteTagged(&tagged, "x", obj, func(int) string { return "cpu" }); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(plain.Bytes(), tagged.Bytes()) {
		t.Error("tags of plain cpu give another file than Write")
	}
	tagged.Reset()
	if err := WriteTagged(&tagged, "x", obj, func(i int) string { return []string{"cpu:0", "mps"}[i] }); err != nil {
		t.Fatal(err)
	}
	f, err := Read(tagged.Bytes(), "x.pt", Options{})
	if err != nil || f.ForeignTags() != "cpu:0 (1 storages), mps (1 storages)" {
		t.Errorf("tags %q, %v", f.ForeignTags(), err)
	}
}

func TestInteropTorchReadsLegacyAndTags(t *testing.T) {
	interpreter := python(t)
	obj, _ := sampleObject()
	dir := t.TempDir()
	write := func(name string, write func(*bytes.Buffer) error) {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), out.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	cuda := func(int) string { return "cuda:1" }
	write("legacy.pt", func(b *bytes.Buffer) error { return WriteLegacy(b, obj, cuda) })
	write("zip.pt", func(b *bytes.Buffer) error { return WriteTagged(b, "zip", obj, cuda) })
	run(t, interpreter, `
import sys, torch
for name in ("legacy.pt", "zip.pt"):
    path = sys.argv[1] + "/" + name
    try:
        torch.load(path)
        raise SystemExit("the tag cuda:1 was not seen in " + name)
    except RuntimeError as e:
        assert "CUDA" in str(e), e
    o = torch.load(path, map_location="cpu")
    assert o["a"].tolist() == [[1, 2, 3], [4, 5, 6]] and o["row"].tolist() == [4, 5, 6] and o["b"].tolist() == [-1, 0.5] and o["n"] == 7, o
    assert o["row"].storage().data_ptr() == o["a"].storage().data_ptr()
`, dir)
}
