package torchfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// seen is what torch sees in a tensor.
type seen struct {
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	Stride []int  `json:"stride"`
	Offset int    `json:"storage_offset"`
	SHA256 string `json:"sha256"` // of the elements; "meta" for none
}

func readManifest(t *testing.T, dir string) map[string]map[string]seen {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]map[string]seen
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// walk collects the tensors of an object by key path, as the manifest does.
func walk(t *testing.T, v any, path string, out map[string]seen) {
	t.Helper()
	join := func(key any) string {
		if path == "" {
			return fmt.Sprint(key)
		}
		return fmt.Sprintf("%s.%v", path, key)
	}
	if x, err := pyobj.AsTensor(v); err == nil {
		out[path] = look(t, x)
		return
	}
	switch v := v.(type) {
	case *pyobj.Dict:
		for _, e := range v.Entries() {
			walk(t, e.Value, join(e.Key), out)
		}
	case *pyobj.List, *pyobj.Tuple:
		items, _ := pyobj.AsItems(v)
		for i, item := range items {
			walk(t, item, join(i), out)
		}
	}
}

func look(t *testing.T, x *tensor.Tensor) seen {
	t.Helper()
	s := seen{DType: x.DType.String(), Shape: append([]int{}, x.Shape...), Stride: append([]int{}, x.Stride...), Offset: x.Offset, SHA256: "meta"}
	if x.Meta {
		return s
	}
	b, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	s.SHA256 = hex.EncodeToString(sum[:])
	return s
}

// testFiles are the files with a manifest.
func testFiles(t *testing.T) map[string]map[string]seen {
	t.Helper()
	files := map[string]map[string]seen{}
	for _, dir := range []string{"torch", "zoo"} {
		for name, tensors := range readManifest(t, dir) {
			files[filepath.Join(dir, name)] = tensors
		}
	}
	return files
}

func TestEveryTensorIsWhatTorchSees(t *testing.T) {
	files := testFiles(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == "torch/module.pt" {
			continue // its tensors are inside of a module: see package ckpt
		}
		t.Run(name, func(t *testing.T) {
			f, err := Open(filepath.Join("testdata", name), Options{Describe: name == "torch/numpy_more.pt"})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := map[string]seen{}
			walk(t, f.Object(), "", got)
			want := files[name]
			for path, w := range want {
				if g, ok := got[path]; !ok {
					t.Errorf("%s is missing", path)
				} else if !reflect.DeepEqual(g, w) {
					t.Errorf("%s: got %+v, want %+v", path, g, w)
				}
			}
			for path, g := range got {
				if _, ok := want[path]; !ok && g.SHA256 != "meta" {
					t.Errorf("%s is in no manifest", path)
				}
			}
		})
	}
}
