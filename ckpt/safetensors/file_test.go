package safetensors

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"rejoin/tensor"
)

// fileOf puts a header, filled up to a multiple of 8 bytes, before data.
func fileOf(header, data string) []byte {
	for len(header)%8 != 0 {
		header += " "
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func TestFilesOfTheLibrary(t *testing.T) {
	text, err := os.ReadFile("testdata/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest map[string]map[string]struct {
		DType  string `json:"dtype"`
		Shape  []int  `json:"shape"`
		SHA256 string `json:"sha256"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	for name, tensors := range manifest {
		t.Run(name, func(t *testing.T) {
			f, err := Open(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if f.StateDict().Len() != len(tensors) || len(f.Unsupported()) != 0 {
				t.Errorf("%d tensors, want %d", f.StateDict().Len(), len(tensors))
			}
			for key, want := range tensors {
				x, ok := f.StateDict().Get(key)
				if !ok {
					t.Errorf("%s is missing", key)
					continue
				}
				b, err := x.Bytes()
				sum := sha256.Sum256(b)
				if err != nil || x.DType.String() != want.DType || !x.SameShape(want.Shape) || hex.EncodeToString(sum[:]) != want.SHA256 {
					t.Errorf("%s: %v %v, want %+v", key, x, err, want)
				}
			}
		})
	}
}

func TestRewritingGivesTheSameBytes(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.safetensors")
	if err != nil || len(paths) < 7 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Read(data, path)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Write(&b, f.StateDict(), f.Metadata()); err != nil || !bytes.Equal(b.Bytes(), data) {
			t.Errorf("%s: differs, %v", path, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	const one = `"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`
	deep := strings.Repeat("[", 20000)
	tests := []struct {
		name      string
		data      []byte
		truncated bool
		problem   string
	}{
		{"empty", nil, true, "is empty"},
		{"zeros", make([]byte, 100), true, "all of them zero"},
		{"LFS stub", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n"), false, "Git-LFS"},
		{"torch file", []byte("PK\x03\x04..............................."), false, "written by torch.save"},
		{"long header", append(binary.LittleEndian.AppendUint64(nil, 1<<30), '{', '}'), false, "at most 100000000"},
		{"header cut", fileOf("{"+one+"}", "1234")[:20], true, "truncated: the header takes"},
		{"data cut", fileOf("{"+one+"}", "12"), true, "truncated: 66 of 68 bytes are there"},
		{"bytes after", fileOf("{"+one+"}", "123456"), false, "2 bytes follow the last tensor"},
		{"name twice", fileOf("{"+one+","+one+"}", "1234"), false, `the name "a" stands twice`},
		{"metadata twice", fileOf(`{"__metadata__":{"a":"","a":""}}`, ""), false, `the metadata key "a" stands twice`},
		{"metadata of numbers", fileOf(`{"__metadata__":{"a":1}}`, ""), false, "expected text"},
		{"dtype twice", fileOf(`{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "1234"), false, `"dtype" stands twice`},
		{"key missing", fileOf(`{"a":{"dtype":"F32","shape":[1]}}`, ""), false, "2 of them are there"},
		{"key unknown", fileOf(`{"a":{"type":"F32"}}`, ""), false, `"type" is not known`},
		{"hole", fileOf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, "12345678"), false, "a hole or an overlap"},
		{"overlap", fileOf(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "123"), false, "a hole or an overlap"},
		{"wrong size", fileOf(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, "1234"), false, "takes 8 bytes, the header gives it 4"},
		{"overflow", fileOf(`{"a":{"dtype":"F32","shape":[4611686018427387903,4611686018427387903],"data_offsets":[0,4]}}`, "1234"), false, "overflows"},
		{"negative", fileOf(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, "1234"), false, "expected a size"},
		{"fraction", fileOf(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, "1234"), false, "expected a size"},
		{"text as a size", fileOf(`{"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}}`, "1234"), false, "expected a size"},
		{"backwards", fileOf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, "1234"), false, "end before they begin"},
		{"three offsets", fileOf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,2,4]}}`, "1234"), false, "more than 2"},
		{"half a byte", fileOf(`{"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}}`, "1"), false, "does not fill whole bytes"},
		{"deep", fileOf(`{"a":`+deep, ""), false, "expected {"},
		{"no JSON", fileOf(`{]`, ""), false, "header:"},
		{"after the header", fileOf(`{} x`, ""), false, "header:"},
		{"no text", fileOf("{\"a\xff\":1}", ""), false, "not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(tt.data, "m.safetensors")
			var e *FormatError
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want a FormatError", err)
			}
			if e.Truncated != tt.truncated || !strings.Contains(err.Error(), tt.problem) || e.Path != "m.safetensors" {
				t.Errorf("%v, truncated %v; want %q, %v", err, e.Truncated, tt.problem, tt.truncated)
			}
		})
	}
}

// A dtype that is not known hides none of the others (D06, huggingface/candle#2875).
func TestUnknownDTypesDoNotHideTheRest(t *testing.T) {
	header := `{"new":{"dtype":"F2_NEW","shape":[3],"data_offsets":[4,5]},"f4":{"dtype":"F4","shape":[2],"data_offsets":[5,6]},` +
		`"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	f, err := Read(fileOf(header, "\x00\x00\x80?xy"), "m")
	if err != nil {
		t.Fatal(err)
	}
	if f.StateDict().Len() != 1 || len(f.Entries()) != 3 {
		t.Errorf("tensors %v, entries %v", f.StateDict().Names(), f.Entries())
	}
	want := []Entry{{"new", "F2_NEW", []int{3}, 4, 5}, {"f4", "F4", []int{2}, 5, 6}}
	if !reflect.DeepEqual(f.Unsupported(), want) {
		t.Errorf("unsupported %v", f.Unsupported())
	}
	got := make([]float32, 1)
	if err := f.StateDict().ReadFloat32(got, "a", []int{1}); err != nil || got[0] != 1 {
		t.Errorf("a is %v, %v", got, err)
	}
}

func TestOrderAndMetadata(t *testing.T) {
	header := `{"z":{"dtype":"U8","shape":[],"data_offsets":[1,2]},"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`
	f, err := Read(fileOf(header, "ab"), "m")
	if err != nil {
		t.Fatal(err)
	}
	if names := f.StateDict().Names(); !reflect.DeepEqual(names, []string{"z", "a"}) {
		t.Errorf("names %v", names)
	}
	if m := f.Metadata(); len(m) != 1 || m["format"] != "pt" {
		t.Errorf("metadata %v", m)
	}
}

func TestOpenMissing(t *testing.T) {
	if _, err := Open("testdata/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if _, err := Open("testdata/README.md"); err == nil {
		t.Error("a text file was opened")
	}
}

func FuzzRead(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*.safetensors")
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(fileOf(`{"__metadata__":{"a":"b"},"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`, "x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Read(data, "fuzz")
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := Write(&b, file.StateDict(), file.Metadata()); err != nil {
			t.Fatalf("cannot write what was read: %v", err)
		}
		again, err := Read(b.Bytes(), "again")
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		for _, name := range file.StateDict().Names() {
			x, _ := file.StateDict().Get(name)
			y, ok := again.StateDict().Get(name)
			if !ok || x.String() != y.String() || !bytes.Equal(mustBytes(t, x), mustBytes(t, y)) {
				t.Fatalf("%q changed: %v, %v", name, x, y)
			}
		}
	})
}

func mustBytes(t *testing.T, x *tensor.Tensor) []byte {
	t.Helper()
	b, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
