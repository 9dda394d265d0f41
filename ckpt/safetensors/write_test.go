package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rejoin/tensor"
)

func zeros(d tensor.DType, n int) *tensor.Tensor {
	return &tensor.Tensor{DType: d, Shape: []int{n}, Stride: []int{1}, Storage: &tensor.Storage{Data: make([]byte, n*d.Size())}}
}

// The header that safetensors 0.8 writes for two elements of every dtype it
// takes from torch 2.14, and a metadata key full of what JSON escapes.
const everyDTypeHeader = `{"__metadata__":{"z\u0001\"\\\n\t/` + "\x7f\u2028é" + `":"1"},` +
	`"uint64":{"dtype":"U64","shape":[2],"data_offsets":[0,16]},"int64":{"dtype":"I64","shape":[2],"data_offsets":[16,32]},` +
	`"float64":{"dtype":"F64","shape":[2],"data_offsets":[32,48]},"complex64":{"dtype":"C64","shape":[2],"data_offsets":[48,64]},` +
	`"float32":{"dtype":"F32","shape":[2],"data_offsets":[64,72]},"uint32":{"dtype":"U32","shape":[2],"data_offsets":[72,80]},` +
	`"int32":{"dtype":"I32","shape":[2],"data_offsets":[80,88]},"bfloat16":{"dtype":"BF16","shape":[2],"data_offsets":[88,92]},` +
	`"float16":{"dtype":"F16","shape":[2],"data_offsets":[92,96]},"uint16":{"dtype":"U16","shape":[2],"data_offsets":[96,100]},` +
	`"int16":{"dtype":"I16","shape":[2],"data_offsets":[100,104]},"float8_e5m2fnuz":{"dtype":"F8_E5M2FNUZ","shape":[2],"data_offsets":[104,106]},` +
	`"float8_e4m3fnuz":{"dtype":"F8_E4M3FNUZ","shape":[2],"data_offsets":[106,108]},"float8_e8m0fnu":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[108,110]},` +
	`"float8_e4m3fn":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[110,112]},"float8_e5m2":{"dtype":"F8_E5M2","shape":[2],"data_offsets":[112,114]},` +
	`"int8":{"dtype":"I8","shape":[2],"data_offsets":[114,116]},"uint8":{"dtype":"U8","shape":[2],"data_offsets":[116,118]},` +
	`"bool":{"dtype":"BOOL","shape":[2],"data_offsets":[118,120]}}`

func TestEveryDTypeAsTheLibraryWritesIt(t *testing.T) {
	sd := tensor.NewStateDict()
	for d := tensor.Float64; d.Valid(); d++ {
		if d != tensor.Complex128 && d != tensor.Complex32 {
			sd.Set(d.String(), zeros(d, 2))
		}
	}
	var b bytes.Buffer
	if err := Write(&b, sd, map[string]string{"z\x01\"\\\n\t/\x7f\u2028é": "1"}); err != nil {
		t.Fatal(err)
	}
	header := b.Bytes()[8 : b.Len()-120]
	if got := strings.TrimRight(string(header), " "); got != everyDTypeHeader || len(header)%8 != 0 {
		t.Errorf("header of %d bytes\n%s\nwant\n%s", len(header), got, everyDTypeHeader)
	}
	if _, err := Read(b.Bytes(), "again"); err != nil {
		t.Error(err)
	}
}

func TestWriteEmpty(t *testing.T) {
	for _, tt := range []struct {
		metadata map[string]string
		want     string
	}{
		{nil, "\x08\x00\x00\x00\x00\x00\x00\x00{}      "},
		{map[string]string{}, "\x18\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\":{}}     "},
	} {
		var b bytes.Buffer
		if err := Write(&b, tensor.NewStateDict(), tt.metadata); err != nil || b.String() != tt.want {
			t.Errorf("metadata %v: %q, %v", tt.metadata, b.String(), err)
		}
	}
}

func TestWriteStrided(t *testing.T) {
	sd := tensor.NewStateDict()
	base := tensor.FromFloat32([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	sd.Set("t", &tensor.Tensor{DType: tensor.Float32, Shape: []int{3, 2}, Stride: []int{1, 3}, Storage: base.Storage})
	var b bytes.Buffer
	if err := Write(&b, sd, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Read(b.Bytes(), "x")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 6)
	if err := f.StateDict().ReadFloat32(got, "t", []int{3, 2}); err != nil || got[1] != 4 || got[2] != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

type failingWriter struct{ left int }

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func TestWriteRefuses(t *testing.T) {
	with := func(name string, x *tensor.Tensor) *tensor.StateDict {
		sd := tensor.NewStateDict()
		sd.Set(name, x)
		return sd
	}
	var unsupported *UnsupportedDTypeError
	if err := Write(io.Discard, with("c", zeros(tensor.Complex128, 1)), nil); !errors.As(err, &unsupported) || unsupported.Name != "c" || unsupported.DType != "complex128" {
		t.Errorf("complex128: %v", err)
	}
	if err := Write(io.Discard, with("__metadata__", zeros(tensor.UInt8, 1)), nil); err == nil {
		t.Error("a tensor called __metadata__ was written")
	}
	meta := &tensor.Tensor{DType: tensor.Float32, Shape: []int{2}, Stride: []int{1}, Meta: true}
	if err := Write(io.Discard, with("m", meta), nil); err == nil || !strings.Contains(err.Error(), "meta device") {
		t.Errorf("meta: %v", err)
	}
	outside := zeros(tensor.Float32, 2)
	outside.Offset = 1
	if err := Write(io.Discard, with("o", outside), nil); err == nil || !strings.Contains(err.Error(), "reach element") {
		t.Errorf("outside: %v", err)
	}
	for _, left := range []int{0, 20, 70} {
		if err := Write(&failingWriter{left}, with("x", zeros(tensor.Float32, 2)), nil); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("after %d bytes: %v", left, err)
		}
	}
}

// TestInteropLibraryReadsOurFiles needs a Python with safetensors and torch.
func TestInteropLibraryReadsOurFiles(t *testing.T) {
	py := os.Getenv("REJOIN_PYTHON")
	if py == "" {
		py = "python3"
	}
	if err := exec.Command(py, "-c", "import safetensors.torch").Run(); err != nil {
		t.Skipf("%s has no safetensors: %v", py, err)
	}
	sd := tensor.NewStateDict()
	sd.Set("a<b>&\"é\"", tensor.FromFloat32([]float32{1, 2}, 2))
	sd.Set("n", zeros(tensor.Int64, 3))
	sd.Set("f8", zeros(tensor.Float8E5M2, 3))
	path := filepath.Join(t.TempDir(), "m.safetensors")
	var b bytes.Buffer
	if err := Write(&b, sd, map[string]string{"format": "pt"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(py, "-c", `
import sys
from safetensors.torch import load_file, save
d = load_file(sys.argv[1])
print({k: (str(v.dtype), v.float().tolist()) for k, v in sorted(d.items())}, save(d, {"format": "pt"}) == open(sys.argv[1], "rb").read())
`, path).CombinedOutput()
	want := `{'a<b>&"é"': ('torch.float32', [1.0, 2.0]), 'f8': ('torch.float8_e5m2', [0.0, 0.0, 0.0]), 'n': ('torch.int64', [0.0, 0.0, 0.0])} True` + "\n"
	if err != nil || string(out) != want {
		t.Errorf("%v, %s", err, out)
	}
}

func Example() {
	sd := tensor.NewStateDict()
	sd.Set("fc.bias", tensor.FromFloat32([]float32{0.5}, 1))
	sd.Set("fc.weight", tensor.FromFloat32([]float32{1, 2, 3}, 1, 3))
	var file bytes.Buffer
	if err := Write(&file, sd, map[string]string{"format": "pt"}); err != nil {
		log.Fatal(err)
	}
	f, err := Read(file.Bytes(), "model.safetensors")
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range f.Entries() {
		fmt.Println(e.Name, e.DType, e.Shape)
	}
	// Output:
	// fc.bias F32 [1]
	// fc.weight F32 [1 3]
}
