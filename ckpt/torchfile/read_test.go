package torchfile

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// part is one record of a hand-made archive.
type part struct {
	name, data string
	deflate    bool
}

// archiveOf is a zip file as Python's zipfile would write it, in the order given.
func archiveOf(t testing.TB, parts ...part) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 9) })
	for _, p := range parts {
		method := zip.Store
		if p.deflate {
			method = zip.Deflate
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: p.name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, p.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// floats is the pickle of a list of one float32 tensor of n elements in storage
// 0, said to have numel elements.
func floats(numel, n string) string {
	return "\x80\x02]ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x010U\x03cpu" + numel +
		"tQK\x00" + n + "\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtRa."
}

const ten = "K\x0a"

func plainArchive(t testing.TB, parts ...part) []byte {
	t.Helper()
	return archiveOf(t, append([]part{{"a/data.pkl", floats(ten, ten), false}, {"a/version", "3\n", false}}, parts...)...)
}

var storage10 = part{"a/data/0", strings.Repeat("\x00\x00\x80?", 10), false}

func TestPlainArchive(t *testing.T) {
	f, err := Read(plainArchive(t, storage10), "x.pt", Options{})
	if err != nil {
		t.Fatal(err)
	}
	items, _ := pyobj.AsItems(f.Object())
	x, err := pyobj.AsTensor(items[0])
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 10)
	if err := x.ReadFloat32(got); err != nil || got[9] != 1 {
		t.Errorf("values %v, %v", got, err)
	}
	if f.Format != Zip || f.Format.String() != "zip" || f.Producer() != "a" || len(f.Records()) != 3 || f.Tags()["cpu"] != 1 {
		t.Errorf("file %+v, tags %v", f, f.Tags())
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// Each damage is told in plain words, with its kind, and no file is taken for another
// format (D03, sml2h3/dddd_trainer#36; D04, huggingface/transformers#8497).
func TestDamage(t *testing.T) {
	whole, err := os.ReadFile("testdata/trainer/optimizer.pt")
	if err != nil {
		t.Fatal(err)
	}
	legacy, err := os.ReadFile("testdata/zoo/legacy.pt")
	if err != nil {
		t.Fatal(err)
	}
	var values pyobj.List
	values.Items = append(values.Items, tensor.FromFloat32(make([]float32, 100_000), 100_000))
	large := write(t, "a", &values)
	lfs := "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 438012345\n"
	two := func(name string) part { return part{name, "x", false} }
	tests := []struct {
		name    string
		data    []byte
		fault   Fault
		problem string
	}{
		{"empty", nil, Truncated, "is empty (0 bytes)"},
		{"zeros", make([]byte, 2048), Truncated, "2048 bytes, all of them zero"},
		{"LFS stub", []byte(lfs), NotTorch, "Git-LFS pointer, a stub that stands for the real file of 438012345 bytes with sha256:4d7a2146"},
		{"gzip", []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00"), NotTorch, "compressed with gzip"},
		{"web page", []byte("\n<!DOCTYPE html><html>404"), NotTorch, "web page"},
		{"JSON", []byte(`{"weight_map": {}}`), NotTorch, "JSON"},
		{"plain pickle", []byte("\x80\x04N."), NotTorch, "plain Python pickle"},
		{"text", []byte("hello, world"), NotTorch, "begins with 68 65 6c"},
		{"safetensors", []byte("\x08\x00\x00\x00\x00\x00\x00\x00{}      "), NotTorch, "safetensors"},
		{"empty zip", append([]byte("PK\x05\x06"), make([]byte, 18)...), NotTorch, "without any record"},
		{"cut at 10 %", whole[:len(whole)/10], Truncated, "end record is missing after 324 bytes"},
		{"cut at 50 %", whole[:len(whole)/2], Truncated, "end record is missing"},
		{"cut at 99 %", whole[:len(whole)*99/100], Truncated, "end record is missing"},
		{"large, cut at 50 %", large[:len(large)/2], Truncated, "200671 of at least 400368 bytes are there"},
		{"cut by the end record", whole[:len(whole)-22], Truncated, "end record is missing"},
		{"legacy cut in the pickle", legacy[:200], Truncated, "object, at byte 137: the file is truncated"},
		{"legacy cut in a storage", legacy[:len(legacy)-5], Truncated, "storage"},
		{"legacy cut before a storage", legacy[:len(legacy)-300], Truncated, "the file is truncated"},
		{"zip of something else", archiveOf(t, two("a/b.txt")), NotTorch, "without data.pkl"},
		{"TorchScript", archiveOf(t, two("m/data.pkl"), two("m/constants.pkl")), Unsupported, "TorchScript"},
		{"no version", archiveOf(t, part{"a/data.pkl", "N.", false}), Corrupt, "version: is missing"},
		{"version 99", archiveOf(t, part{"a/data.pkl", "N.", false}, part{"a/version", "99\n", false}), Unsupported, "version 99"},
		{"version text", archiveOf(t, part{"a/data.pkl", "N.", false}, part{"a/version", "x", false}), Corrupt, "expected a number"},
		{"byte order", plainArchive(t, storage10, part{"a/byteorder", "middle", false}), Corrupt, "expected little or big"},
		{"storage missing", plainArchive(t), Corrupt, "record data/0: is missing"},
		{"storage too long", plainArchive(t, part{"a/data/0", strings.Repeat("x", 80), false}), Corrupt, "holds 80 bytes, the pickle says 40"},
		{"storage cut", plainArchive(t, part{"a/data/0", strings.Repeat("x", 20), false}), Truncated, "holds 20 bytes, the pickle says 40"},
		{"another directory", plainArchive(t, storage10, two("b/0")), Corrupt, `not under the archive's directory "a"`},
		{"no directory", plainArchive(t, storage10, two("x")), Corrupt, "not under"},
		{"record twice", plainArchive(t, storage10, storage10), Corrupt, "is there twice"},
		{"path trick", plainArchive(t, storage10, two("a/../../etc/passwd")), Corrupt, "leads out"},
		{"backslash", plainArchive(t, storage10, two(`a/..\x`)), Corrupt, "leads out"},
		{"tensor out of its storage", archiveOf(t, part{"a/data.pkl", floats(ten, "K\x0b"), false}, part{"a/version", "3", false}, storage10), Corrupt, "key 0: shape [11]"},
		{"negative storage", archiveOf(t, part{"a/data.pkl", floats("J\xff\xff\xff\xff", ten), false}, part{"a/version", "3", false}, storage10), Corrupt, "claims -1 elements"},
		{"endless storage", archiveOf(t, part{"a/data.pkl", floats("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x40", ten), false}, part{"a/version", "3", false}, storage10), Corrupt, "claims 4611686018427387904 elements"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(tt.data, "some/file.pt", Options{})
			var e *FormatError
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want a FormatError", err)
			}
			if e.Fault != tt.fault || !strings.Contains(err.Error(), tt.problem) || !strings.HasPrefix(err.Error(), "some/file.pt: ") {
				t.Errorf("fault %d: %v; want %d, %q", e.Fault, err, tt.fault, tt.problem)
			}
		})
	}
}

// lying is an archive whose storage 0 claims to inflate to claimed bytes, of
// which the pickle wants 40, and really inflates to real ones.
func lying(t *testing.T, numel string, claimed, real int) []byte {
	t.Helper()
	var body, b bytes.Buffer
	w, _ := flate.NewWriter(&body, 9)
	if _, err := w.Write(make([]byte, real)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	z := zip.NewWriter(&b)
	for _, p := range []part{{"a/data.pkl", floats(numel, ten), false}, {"a/version", "3", false}} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: p.name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, p.data); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := z.CreateRaw(&zip.FileHeader{Name: "a/data/0", Method: zip.Deflate, CompressedSize64: uint64(body.Len()), UncompressedSize64: uint64(claimed)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Write(body.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestInflationIsBounded(t *testing.T) {
	tests := []struct {
		name          string
		numel         string
		claimed, real int
		problem       string
	}{
		{"as much as needed", ten, 40, 40, ""},
		{"less than it claims", ten, 40, 39, "does not inflate to the 40 bytes"},
		{"more than it claims", ten, 40, 41, "does not inflate to the 40 bytes"},
		{"another size than the pickle says", ten, 80, 80, "holds 80 bytes, the pickle says 40"},
		{"far too much", "J\x00\x00\x00\x02", 128 << 20, 40, "out of all proportion"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(lying(t, tt.numel, tt.claimed, tt.real), "x.pt", Options{})
			if tt.problem == "" && err != nil || tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
				t.Errorf("error %v, want %q", err, tt.problem)
			}
		})
	}
}

func TestDeflatedAndBigEndian(t *testing.T) {
	deflated := plainArchive(t, part{"a/data/0", storage10.data, true})
	big := plainArchive(t, part{"a/byteorder", "big", false}, part{"a/data/0", strings.Repeat("?\x80\x00\x00", 10), false})
	for name, data := range map[string][]byte{"deflated": deflated, "big-endian": big} {
		f, err := Read(data, name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Warnings) != 1 {
			t.Errorf("%s: warnings %q", name, f.Warnings)
		}
		items, _ := pyobj.AsItems(f.Object())
		x, _ := pyobj.AsTensor(items[0])
		got := make([]float32, 10)
		if err := x.ReadFloat32(got); err != nil || got[0] != 1 || got[9] != 1 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// An element type that is not known hides its tensor and no other.
func TestUnknownDType(t *testing.T) {
	v3 := "ctorch._utils\n_rebuild_tensor_v3\n((U\x07storagectorch.storage\nUntypedStorage\nU\x010U\x03cpuK\x28tQK\x00K\x28\x85K\x01\x85\x89Nctorch\nfloat4_e2m1fn_x2\ntR"
	data := archiveOf(t, part{"a/data.pkl", "\x80\x02}(U\x01a" + v3 + "U\x01bK\x01u.", false}, part{"a/version", "3", false}, storage10)
	_, err := Read(data, "x.pt", Options{})
	var global *UnsupportedGlobalError
	if !errors.As(err, &global) || global.Global.Name != "float4_e2m1fn_x2" || !strings.HasPrefix(global.KeyPath, "a") {
		t.Errorf("error %v", err)
	}
	f, err := Read(data, "x.pt", Options{Describe: true})
	if err != nil {
		t.Fatal(err)
	}
	d, _ := pyobj.AsDict(f.Object())
	a, _ := d.Get("a")
	if o, ok := a.(*pyobj.Object); !ok || o.Class.Name != "_rebuild_tensor_v3" || d.Len() != 2 {
		t.Errorf("got %v", a)
	}
	again, err := Read(write(t, "a", f.Object()), "x.pt", Options{Describe: true})
	if err != nil || again.Tags()["cpu"] != 1 {
		t.Errorf("written and read again: %v", err)
	}
}

func TestOverlappingRecords(t *testing.T) {
	data := plainArchive(t, storage10)
	last := bytes.LastIndex(data, []byte("PK\x01\x02"))
	before := bytes.LastIndex(data[:last], []byte("PK\x01\x02"))
	copy(data[last+42:last+46], data[before+42:before+46])
	if _, err := Read(data, "x.pt", Options{}); err == nil || !strings.Contains(err.Error(), "overlaps record") {
		t.Errorf("error %v", err)
	}
}

func TestSwapped(t *testing.T) {
	for size, want := range map[int]string{1: "abcdefgh", 2: "badcfehg", 4: "dcbahgfe", 8: "hgfedcba"} {
		if got := string(swapped([]byte("abcdefgh"), size)); got != want {
			t.Errorf("size %d: %q", size, got)
		}
	}
}

func TestChecksums(t *testing.T) {
	data := plainArchive(t, storage10)
	clean, err := Read(data, "x.pt", Options{CheckCRC: true})
	if err != nil || len(clean.Warnings) != 0 {
		t.Fatal(clean, err)
	}
	at := bytes.Index(data, []byte(storage10.data))
	data[at+5] ^= 1
	f, err := Read(data, "x.pt", Options{CheckCRC: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "record data/0: the checksum is") {
		t.Errorf("warnings %q", f.Warnings)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.CheckCRC(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if none, err := Open("testdata/zoo/no_crc.pt", Options{CheckCRC: true}); err != nil || len(none.Warnings) != 0 {
		t.Errorf("a file without checksums: %v, %v", none, err)
	}
}

// The hostile files end in an error or a value, having allocated little.
func TestBadFiles(t *testing.T) {
	loads := map[string]bool{"bitflip.pt": true, "deflate_big.pt": true, "bigendian.pt": true, "long1_0.pt": true, "selfref.pt": true}
	paths, err := filepath.Glob("testdata/bad/*.pt")
	if err != nil || len(paths) < 15 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f, err := Open(path, Options{Describe: true})
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
				t.Errorf("took %d bytes", used)
			}
			if loads[filepath.Base(path)] {
				if err != nil {
					t.Fatal(err)
				}
				f.Close()
				return
			}
			var format *FormatError
			var global *UnsupportedGlobalError
			if !errors.As(err, &format) && !errors.As(err, &global) {
				t.Fatalf("error %v of type %T", err, err)
			}
			if !strings.Contains(err.Error(), path) {
				t.Errorf("%v does not name the file", err)
			}
		})
	}
}

func TestMapLocation(t *testing.T) {
	const cuda = "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False."
	tests := []struct {
		file  string
		mapTo tensor.MapLocation
		text  string // of torch's refusal
	}{
		{"zoo/tag_cuda_0.pt", nil, ""},
		{"zoo/tag_npu_0.pt", tensor.CPU, ""},
		{"zoo/tag_mixed_legacy.pt", nil, ""},
		{"zoo/tag_cuda_0.pt", tensor.TorchSaved, cuda},
		{"zoo/tag_mixed_legacy.pt", tensor.TorchSaved, cuda},
		{"zoo/tag_cpu_0.pt", tensor.TorchSaved, "don't know how to restore data location of torch.storage.UntypedStorage (tagged with cpu:0)"},
		{"trainer/optimizer.pt", tensor.TorchLocation("cpu:0"), "don't know how to restore data location of torch.storage.UntypedStorage (tagged with cpu:0)"},
		{"zoo/tag_mixed.pt", tensor.TorchDict(map[string]string{"cuda:0": "cpu", "cuda:1": "cpu", "cuda:3": "cpu"}), ""},
		{"zoo/tag_cuda.pt", tensor.TorchLocation("meta"), ""},
	}
	for _, tt := range tests {
		f, err := Open(filepath.Join("testdata", tt.file), Options{MapLocation: tt.mapTo})
		var location *tensor.LocationError
		switch {
		case tt.text == "" && err != nil:
			t.Errorf("%s: %v", tt.file, err)
		case tt.text == "":
			f.Close()
		case !errors.As(err, &location) || !strings.HasPrefix(location.Error(), tt.text):
			t.Errorf("%s: %v, want %q", tt.file, err, tt.text)
		}
	}
}

func TestTagsAndMetaLocation(t *testing.T) {
	f, err := Open("testdata/zoo/tag_mixed.pt", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if want := map[string]int{"cuda:0": 1, "cuda:1": 1, "cuda:3": 1, "cpu": 1}; !reflect.DeepEqual(f.Tags(), want) {
		t.Errorf("tags %v", f.Tags())
	}
	if got := f.ForeignTags(); got != "cuda:0 (1 storages), cuda:1 (1 storages), cuda:3 (1 storages)" {
		t.Errorf("foreign tags %q", got)
	}
	m, err := Open("testdata/zoo/tag_mixed.pt", Options{MapLocation: tensor.TorchLocation("meta")})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	d, _ := pyobj.AsDict(m.Object())
	v, _ := d.Get("p0")
	x, _ := pyobj.AsTensor(v)
	if _, err := x.Bytes(); !x.Meta || err == nil {
		t.Errorf("a tensor on the meta device has bytes: %v", x)
	}
}

func TestTrainingArgsAreData(t *testing.T) {
	path := "testdata/trainer/training_args.bin"
	_, err := Open(path, Options{})
	var global *UnsupportedGlobalError
	if !errors.As(err, &global) || global.Global.Name != "TrainingArguments" || global.Path != path || global.Forbidden {
		t.Errorf("error %v", err)
	}
	f, err := Open(path, Options{Describe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	args := f.Object().(*pyobj.Object)
	lr, _ := args.Attr("learning_rate")
	scheduler, _ := args.Attr("lr_scheduler_type")
	state, _ := args.Attr("distributed_state")
	if lr != any(0.01) || scheduler.(*pyobj.Object).Args.Items[0] != any("linear") {
		t.Errorf("learning_rate %v, lr_scheduler_type %v", lr, scheduler)
	}
	if n, _ := state.(*pyobj.Object).Attr("num_processes"); n != any(int64(2)) {
		t.Errorf("num_processes %v", n)
	}
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	if _, err := Open("testdata/none.pt", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if _, err := Open("testdata", Options{}); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("error %v", err)
	}
}
