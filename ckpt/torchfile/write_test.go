package torchfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// TestHashesOfTorch builds what testdata/make.py saved and compares the files:
// batches of the pickler, memo entries above 255, and the serialization id over
// up to 3000 names.
func TestHashesOfTorch(t *testing.T) {
	text, err := os.ReadFile("testdata/torch/hashes.json")
	if err != nil {
		t.Fatal(err)
	}
	var hashes map[string]string
	if err := json.Unmarshal(text, &hashes); err != nil {
		t.Fatal(err)
	}
	for name, want := range hashes {
		kind, count, _ := strings.Cut(name, "_")
		n := 0
		if _, err := fmt.Sscan(count, &n); err != nil {
			t.Fatal(err)
		}
		dict, list := pyobj.NewDict(), &pyobj.List{}
		var object any = dict
		for i := range n {
			switch kind {
			case "tensors":
				dict.Set(fmt.Sprintf("layer.%d", i), tensor.FromFloat32([]float32{float32(i)}, 1))
			case "list":
				list.Items = append(list.Items, i)
				object = list
			default:
				dict.Set(i, nil)
			}
		}
		if kind == "ordered" {
			dict.Kind = pyobj.OrderedDict
		}
		sum := sha256.Sum256(write(t, "archive", object))
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: the file differs from torch's", name)
		}
	}
}

// view makes a tensor of a storage of float32 0, 1, 2 …
func view(s *tensor.Storage, offset int, shape, stride []int) *tensor.Tensor {
	return &tensor.Tensor{DType: tensor.Float32, Storage: s, Offset: offset, Shape: shape, Stride: stride}
}

func counting(n int) *tensor.Storage {
	s := &tensor.Storage{Device: "cuda:3"}
	for i := range n {
		s.Data = append(s.Data, tensor.FromFloat32([]float32{float32(i)}, 1).Storage.Data...)
	}
	return s
}

func recordSizes(f *File) map[string]int {
	sizes := map[string]int{}
	for _, r := range f.Records() {
		if strings.HasPrefix(r.Name, "data/") {
			sizes[r.Name] = r.Bytes
		}
	}
	return sizes
}

// A view of a large storage is written with its own elements alone, unless another view
// shares them (D07, pytorch/pytorch#40157).
func TestViewsAreCompact(t *testing.T) {
	rows := view(counting(10000), 5, []int{2, 3}, []int{10, 1})
	shared := counting(100)
	tests := []struct {
		name  string
		obj   any
		sizes map[string]int
	}{
		{"a lone view", pyobj.NewDict("a", rows), map[string]int{"data/0": 24}},
		{"one view twice", pyobj.NewDict("a", rows, "b", rows), map[string]int{"data/0": 24}},
		{"two views", pyobj.NewDict("a", view(shared, 0, []int{2}, []int{1}), "b", view(shared, 2, []int{2}, []int{1})), map[string]int{"data/0": 400}},
		{"expanded", pyobj.NewDict("a", view(counting(3), 0, []int{50, 3}, []int{0, 1})), map[string]int{"data/0": 12}},
		{"a row, expanded", pyobj.NewDict("a", view(shared, 0, []int{3, 4}, []int{0, 1})), map[string]int{"data/0": 48}},
		{"transposed", pyobj.NewDict("a", view(counting(6), 0, []int{3, 2}, []int{1, 3})), map[string]int{"data/0": 24}},
		{"empty of a large one", pyobj.NewDict("a", view(shared, 0, []int{0}, []int{1})), map[string]int{"data/0": 0}},
		{"as two types", pyobj.NewDict("a", view(shared, 0, []int{100}, []int{1}), "b", &tensor.Tensor{DType: tensor.Int32, Storage: shared, Shape: []int{100}, Stride: []int{1}}), map[string]int{"data/0": 400, "data/1": 400}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data := write(t, "x", tt.obj)
			f, err := Read(data, "x.pt", Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := recordSizes(f); fmt.Sprint(got) != fmt.Sprint(tt.sizes) {
				t.Errorf("records %v, want %v", got, tt.sizes)
			}
			if f.Tags()["cpu"] != len(tt.sizes) {
				t.Errorf("tags %v", f.Tags())
			}
			want, got := map[string]seen{}, map[string]seen{}
			walk(t, tt.obj, "", want)
			walk(t, f.Object(), "", got)
			for path, w := range want {
				if got[path].SHA256 != w.SHA256 {
					t.Errorf("%s: other elements", path)
				}
			}
		})
	}
}

func TestParametersAndStorages(t *testing.T) {
	x := tensor.FromFloat32([]float32{1, 2}, 2)
	x.RequiresGrad = true
	obj := pyobj.NewDict(
		"p", &pyobj.Parameter{Data: x},
		"s", &pyobj.TypedStorage{Class: pyobj.Global{Module: "torch", Name: "FloatStorage"}, DType: tensor.Float32, Storage: counting(3), NumElements: 3},
		"meta", &tensor.Tensor{DType: tensor.Float16, Shape: []int{3}, Stride: []int{1}, Meta: true},
		"device", pyobj.Device("cuda:1"), "size", pyobj.Size{1, 2},
	)
	f, err := Read(write(t, "x", obj), "x.pt", Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, _ := pyobj.AsDict(f.Object())
	p, _ := d.Get("p")
	if p := p.(*pyobj.Parameter); !p.Data.RequiresGrad || p.Data.NumElements() != 2 {
		t.Errorf("parameter %v", p.Data)
	}
	s, _ := d.Get("s")
	if s := s.(*pyobj.TypedStorage); s.NumElements != 3 || len(s.Storage.Data) != 12 || s.DType != tensor.Float32 {
		t.Errorf("storage %+v", s)
	}
	m, _ := d.Get("meta")
	if m := m.(*tensor.Tensor); !m.Meta || m.DType != tensor.Float16 {
		t.Errorf("meta tensor %v", m)
	}
	if v, _ := d.Get("device"); v != any(pyobj.Device("cuda:1")) {
		t.Errorf("device %v", v)
	}
}

type failingWriter struct{ left int }

var errFull = errors.New("disk full")

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriteFails(t *testing.T) {
	x := tensor.FromFloat32(make([]float32, 1000), 1000)
	for _, left := range []int{0, 100, 2000, 4500, len(write(t, "x", x)) - 1} {
		if err := Write(&failingWriter{left}, "x", x); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v", left, err)
		}
	}
	outside := view(counting(3), 2, []int{2}, []int{1})
	if err := Write(&bytes.Buffer{}, "x", outside); err == nil || !strings.Contains(err.Error(), "reach element 3") {
		t.Errorf("a tensor out of its storage: %v", err)
	}
	if err := Write(&bytes.Buffer{}, "x", pyobj.Device("cuda:x")); err == nil {
		t.Error("a device without a number was written")
	}
	if err := Write(&bytes.Buffer{}, strings.Repeat("x", 70000), x); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a long name: %v", err)
	}
}

func TestArchiveName(t *testing.T) {
	for path, want := range map[string]string{
		"optimizer.pt": "optimizer", "a/b/rng_state_0.pth": "rng_state_0", "model.tar.gz": "model.tar", "plain": "plain", ".hidden": ".hidden",
	} {
		if got := ArchiveName(filepath.FromSlash(path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// Beyond 4 GiB sizes and offsets move to zip64 fields. The expected bytes are
// those of a file of torch 2.14.1 with 2^30 floats and then three.
func TestHeadersBeyond4GiB(t *testing.T) {
	const start, size = 832 - 64 + 4, 1 << 32
	h := localHeader("x/data/0", 0x0808, start, size)
	if extra := h[30+len("x/data/0"):]; !bytes.HasPrefix(extra, []byte("\x01\x00\x10\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00FB")) {
		t.Errorf("local extra % x", extra)
	}
	if (start+len(h))%alignment != 0 || !bytes.Equal(h[18:26], make([]byte, 8)) {
		t.Errorf("local header % x", h)
	}
	late := localHeader("x/data/1", 0x0808, size+100, 12)
	if extra := late[30+len("x/data/1"):]; !bytes.HasPrefix(extra, []byte("\x01\x00\x08\x00\x64\x00\x00\x00\x01\x00\x00\x00FB")) {
		t.Errorf("late local extra % x", extra)
	}
	c := centralHeader("x/data/0", 0x0808, 7, start, size)
	if binary.LittleEndian.Uint32(c[20:]) != 0xffffffff || binary.LittleEndian.Uint32(c[42:]) != start || !bytes.HasSuffix(c, []byte("\x01\x00\x10\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00")) {
		t.Errorf("central header % x", c)
	}
	if d := descriptor(7, size, true); len(d) != 24 {
		t.Errorf("descriptor % x", d)
	}
}

// sparseArchive writes a torch file of one storage of size zero bytes but for
// its last four, without writing the zeros or a checksum of them.
func sparseArchive(t *testing.T, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sparse.pt")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var head bytes.Buffer
	z := newArchiveWriter(&head, "sparse")
	numel := "\x8a\x05" + string(binary.LittleEndian.AppendUint64(nil, uint64(size/4))[:5])
	z.record("data.pkl", []byte(strings.Replace(floats(numel, ten), "QK\x00", "Q\x8a\x05"+string(binary.LittleEndian.AppendUint64(nil, uint64(size/4-10))[:5]), 1)))
	z.record("version", []byte("3\n"))
	start := z.offset
	z.write(localHeader("sparse/data/0", 0x0808, start, uint64(size)))
	z.offset += uint64(size)
	var tail bytes.Buffer
	tail.Write(descriptor(0, uint64(size), true))
	z.central = append(z.central, centralHeader("sparse/data/0", 0x0808, 0, start, uint64(size))...)
	z.count++
	end := int64(z.offset)
	z.offset += 24
	z.w = &tail
	if err := z.close(); err != nil {
		t.Fatal(err)
	}
	for at, b := range map[int64][]byte{0: head.Bytes(), end - 4: {0, 0, 0x80, 0x3f}, end: tail.Bytes()} {
		if _, err := f.WriteAt(b, at); err != nil {
			t.Skipf("the file system has no sparse files of %d bytes: %v", size, err)
		}
	}
	return path
}

// A file of 6 GiB opens and gives its last elements in constant memory
// (D09, pytorch/pytorch#717).
func TestSparseFileBeyond4GiB(t *testing.T) {
	path := sparseArchive(t, 6<<30)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	items, _ := pyobj.AsItems(f.Object())
	x, err := pyobj.AsTensor(items[0])
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 10)
	if err := x.ReadFloat32(got); err != nil || got[9] != 1 || got[8] != 0 {
		t.Errorf("last elements %v, %v", got, err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("took %d bytes", used)
	}
}

// What lies beyond 2 GiB and 4 GiB of a storage is read as it was written
// (D09, pytorch/pytorch#717).
func TestElementsBeyond2GiB(t *testing.T) {
	for _, size := range []int{2_200 << 20, 4_300 << 20} {
		path := sparseArchive(t, size)
		f, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		records := f.Records()
		f.Close()
		content := records[slices.IndexFunc(records, func(r Record) bool { return r.Name == "data/0" })]
		if content.Size != uint64(size) {
			t.Fatalf("record %+v", content)
		}
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		var marked []int
		marks := []int{0, 1<<31 - 4, 1 << 31, 1<<32 - 4, 1 << 32, size - 4}
		for i, at := range marks {
			if at >= size {
				continue
			}
			marked = append(marked, at)
			if _, err := file.WriteAt(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(i+1))), int64(content.Offset+at)); err != nil {
				t.Fatal(err)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if f, err = Open(path, Options{}); err != nil {
			t.Fatal(err)
		}
		items, _ := pyobj.AsItems(f.Object())
		x, _ := pyobj.AsTensor(items[0])
		for _, at := range marked {
			one := &tensor.Tensor{DType: tensor.Float32, Shape: []int{1}, Stride: []int{1}, Offset: at / 4, Storage: x.Storage}
			got := make([]float32, 1)
			want := float32(slices.Index(marks, at) + 1)
			if err := one.ReadFloat32(got); err != nil || got[0] != want {
				t.Errorf("%d bytes, at %d: %v, %v, want %v", size, at, got, err, want)
			}
		}
		f.Close()
	}
}
