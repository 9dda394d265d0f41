package torchfile

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"strings"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

const legacyHead = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00(X\x0d\x00\x00\x00little_endian\x88X\x01\x00\x00\x00a\x88u."

// legacyOf is a legacy file of a list of one float32 tensor of n elements, in
// storage 7 or, if view is given, in a part of it.
func legacyOf(n, view string, keys string, numel uint64, data string) []byte {
	b := []byte(legacyHead + "\x80\x02]ctorch._utils\n_rebuild_tensor\n((U\x07storagectorch\nFloatStorage\nU\x017U\x06cuda:0" + ten + view +
		"tQK\x00" + n + "\x85K\x01\x85tRa.\x80\x02" + keys + ".")
	return append(binary.LittleEndian.AppendUint64(b, numel), data...)
}

func TestLegacy(t *testing.T) {
	data := strings.Repeat("\x00\x00\x80?", 9) + "\x00\x00\x00@"
	keys := "]U\x017a"
	tests := []struct {
		name, problem string
		file          []byte
		last          float32
		length        int
	}{
		{"plain", "", legacyOf(ten, "N", keys, 10, data), 2, 10},
		{"view", "", legacyOf("K\x03", "(U\x019K\x07K\x03t", keys, 10, data), 2, 3},
		{"view out of its storage", "is out of it", legacyOf("K\x03", "(U\x019K\x08K\x03t", keys, 10, data), 0, 0},
		{"tensor out of its view", "reach element 3", legacyOf("K\x04", "(U\x019K\x07K\x03t", keys, 10, data), 0, 0},
		{"other number", "has 9 elements in the data and 10", legacyOf(ten, "N", keys, 9, data), 0, 0},
		{"cut", "takes 40 bytes", legacyOf(ten, "N", keys, 10, data[:20]), 0, 0},
		{"not listed", "is not in the list of storages", legacyOf(ten, "N", "]", 10, data), 0, 0},
		{"unknown listed", "which no tensor uses", legacyOf(ten, "N", "]U\x018a", 10, data), 0, 0},
		{"list of another kind", "list of storages: is None", legacyOf(ten, "N", "N", 10, data), 0, 0},
		{"no list", "before its list of storages", []byte(legacyHead + "\x80\x02N."), 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Read(tt.file, "old.pt", Options{})
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Errorf("error %v, want %q", err, tt.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			items, _ := pyobj.AsItems(f.Object())
			x, _ := pyobj.AsTensor(items[0])
			got := make([]float32, tt.length)
			if err := x.ReadFloat32(got); err != nil || got[tt.length-1] != tt.last {
				t.Errorf("%v, %v", got, err)
			}
			if f.Format != Legacy || f.Tags()["cuda:0"] != 1 || x.Storage.SavedDevice != "cuda:0" || x.Storage.Device != "cpu" {
				t.Errorf("format %v, tags %v, storage %+v", f.Format, f.Tags(), x.Storage)
			}
		})
	}
}

func TestLegacyBigEndian(t *testing.T) {
	file := legacyOf(ten, "N", "]U\x017a", 10, strings.Repeat("?\x80\x00\x00", 10))
	file = bytes.Replace(file, []byte("little_endian\x88"), []byte("little_endian\x89"), 1)
	f, err := Read(file, "old.pt", Options{})
	if err != nil {
		t.Fatal(err)
	}
	items, _ := pyobj.AsItems(f.Object())
	x, _ := pyobj.AsTensor(items[0])
	got := make([]float32, 10)
	if err := x.ReadFloat32(got); err != nil || got[3] != 1 || f.ByteOrder != "big" {
		t.Errorf("%v, %v, %s", got, err, f.ByteOrder)
	}
}

// tarOf is a tar file of torch's old layout: one storage of float32 0, 1, 2, 3,
// a view of its second half, and a tensor on each.
func tarOf(t *testing.T, edit func(members map[string][]byte)) []byte {
	t.Helper()
	le := binary.LittleEndian
	storages := []byte("\x80\x02K\x01.\x80\x02(K\x05U\x03cpuctorch\nFloatStorage\nt.")
	storages = le.AppendUint64(storages, 4)
	storages = append(storages, counting(4).Data...)
	storages = append(storages, "\x80\x02](K\x06K\x05K\x02K\x02ta."...)
	geometry := func(b []byte, numbers ...uint64) []byte {
		b = le.AppendUint64(b, 1)
		for _, n := range numbers {
			b = le.AppendUint64(b, n)
		}
		return b
	}
	tensors := geometry([]byte("\x80\x02K\x02.\x80\x02(K\x08K\x05ctorch\nFloatTensor\nt."), 4, 1, 0)
	tensors = geometry(append(tensors, "\x80\x02(K\x09K\x06ctorch\nFloatTensor\nt."...), 2, 1, 0)
	members := map[string][]byte{"storages": storages, "tensors": tensors, "pickle": []byte("\x80\x02}(U\x01aU\x018QU\x01bU\x019Qu.")}
	if edit != nil {
		edit(members)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"storages", "tensors", "pickle"} {
		if members[name] == nil {
			continue
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(members[name])), Mode: 0o600, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(members[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTar(t *testing.T) {
	f, err := Read(tarOf(t, nil), "older.pt", Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, _ := pyobj.AsDict(f.Object())
	for key, want := range map[string][]float32{"a": {0, 1, 2, 3}, "b": {2, 3}} {
		v, _ := d.Get(key)
		x, err := pyobj.AsTensor(v)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(want))
		if err := x.ReadFloat32(got); err != nil || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("%s: %v, want %v, %v", key, got, want, err)
		}
	}
	if f.Format != Tar || f.Format.String() != "tar" || f.Tags()["cpu"] != 1 {
		t.Errorf("format %v, tags %v", f.Format, f.Tags())
	}
	written := write(t, "x", f.Object())
	if _, err := Read(written, "x.pt", Options{}); err != nil {
		t.Error(err)
	}
}

func TestTarRefuses(t *testing.T) {
	replace := func(member, old, new string) func(map[string][]byte) {
		return func(m map[string][]byte) { m[member] = bytes.Replace(m[member], []byte(old), []byte(new), 1) }
	}
	tests := []struct {
		name, problem string
		edit          func(map[string][]byte)
	}{
		{"member missing", `without the member "tensors"`, func(m map[string][]byte) { delete(m, "tensors") }},
		{"storages cut", "truncated", func(m map[string][]byte) { m["storages"] = m["storages"][:50] }},
		{"tensors cut", "truncated", func(m map[string][]byte) { m["tensors"] = m["tensors"][:40] }},
		{"many storages", "number is not possible", replace("storages", "K\x01.", "J\x00\x00\x00\x7f.")},
		{"unknown storage", "which the file does not hold", replace("tensors", "K\x08K\x05", "K\x08K\x04")},
		{"unknown tensor", "which the file does not hold", replace("pickle", "U\x018Q", "U\x017Q")},
		{"view of nothing", "which is no storage", replace("storages", "K\x06K\x05", "K\x06K\x04")},
		{"view out of its storage", "is out of it", replace("storages", "K\x02K\x02t", "K\x03K\x02t")},
		{"tensor out of its storage", "reach element", replace("tensors", "\x04\x00\x00\x00\x00\x00\x00\x00\x01", "\x05\x00\x00\x00\x00\x00\x00\x00\x01")},
		{"many dimensions", "dimensions", func(m map[string][]byte) {
			m["tensors"] = bytes.Replace(m["tensors"], []byte("t.\x01"), []byte("t.\xff"), 1)
		}},
		{"forbidden", "os.system", replace("pickle", "U\x018Q", "cos\nsystem\nU\x02id\x85R")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Read(tarOf(t, tt.edit), "older.pt", Options{}); err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("error %v, want %q", err, tt.problem)
			}
		})
	}
	whole := tarOf(t, nil)
	if _, err := Read(whole[:1200], "older.pt", Options{}); err == nil {
		t.Error("a tar archive that was cut is read")
	}
}

// The file ends as an empty zip file does, and others take it for one
// (D05, pytorch/pytorch#25214).
func TestLegacyThatLooksLikeZip(t *testing.T) {
	const path = "testdata/zoo/legacy_looks_like_zip.pt"
	z, err := zip.OpenReader(path)
	if err != nil || len(z.File) != 0 {
		t.Fatalf("the file does not look like an empty zip file: %v", err)
	}
	defer z.Close()
	f, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[string]seen{}
	walk(t, f.Object(), "", seen)
	if want := readManifest(t, "zoo")["legacy_looks_like_zip.pt"]; f.Format != Legacy || len(want) == 0 || !maps.Equal(hashes(seen), hashes(want)) {
		t.Errorf("format %v: %+v, want %+v", f.Format, seen, want)
	}
}

func hashes(tensors map[string]seen) map[string]string {
	out := map[string]string{}
	for path, s := range tensors {
		out[path] = s.SHA256
	}
	return out
}

// A CPU is named in many ways, with a number or without, and a file of either container
// loads by each, where torch's own rules refuse a number
// (D01, SeungjunNah/DeepDeblur-PyTorch#28).
func TestEveryNameOfTheCPU(t *testing.T) {
	for _, path := range []string{"testdata/zoo/tag_cpu_0.pt", "testdata/zoo/state_dict.pt", "testdata/zoo/legacy.pt"} {
		for _, location := range []string{"cpu", "cpu:0"} {
			for _, rules := range []tensor.LocationRules{tensor.Lenient, tensor.TorchRules} {
				locate, err := tensor.ParseMapLocation(location, rules, "cpu")
				if err != nil {
					t.Fatal(err)
				}
				f, err := Open(path, Options{MapLocation: locate})
				if err == nil {
					f.Close()
				}
				var refused *tensor.LocationError
				if want := rules == tensor.TorchRules && location == "cpu:0"; errors.As(err, &refused) != want || !want && err != nil {
					t.Errorf("%s with %s under rules %v: %v", path, location, rules, err)
				}
			}
		}
	}
}
