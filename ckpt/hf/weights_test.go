package hf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

func writeShards(t *testing.T, dir, index string, safe bool) {
	t.Helper()
	names := map[string]string{"a": "model-00001-of-00002", "b": "model-00002-of-00002"}
	extension := map[bool]string{true: ".safetensors", false: ".bin"}[safe]
	for name, file := range names {
		weights := tensor.NewStateDict()
		data := tensor.FromFloat32([]float32{1, 2}, 2)
		weights.Set(name, data)
		var out bytes.Buffer
		err := error(nil)
		if safe {
			err = safetensors.Write(&out, weights, nil)
		} else {
			err = torchfile.Write(&out, file, pyobj.NewDict(name, data))
		}
		if err != nil {
			t.Fatal(err)
		}
		writeBytes(t, filepath.Join(dir, file+extension), out.Bytes())
	}
	text := fmt.Sprintf(`{"metadata": {"total_size": 16}, "weight_map": {"a": "%s%s", "b": "%s%s"}}`, names["a"], extension, names["b"], extension)
	writeBytes(t, filepath.Join(dir, index), []byte(text))
}

func TestShardedWeights(t *testing.T) {
	for index, safe := range map[string]bool{SafeWeightsIndexFile: true, BinWeightsIndexFile: false} {
		dir := t.TempDir()
		writeShards(t, dir, index, safe)
		c := open(t, dir)
		weights, err := c.Weights()
		if err != nil || !slices.Equal(weights.Names(), []string{"a", "b"}) {
			t.Fatalf("%s: %v, %v", index, weights, err)
		}
		if err := weights.ReadFloat32(make([]float32, 2), "b", []int{2}); err != nil {
			t.Error(err)
		}
		for change, want := range map[string]string{
			`{"weight_map": {"a": "../model.bin"}}`: "not the name of a file in the checkpoint",
			`{"weight_map": {"a": 1}}`:              "expected a file name, found int",
			`{"weight_map": {}}`:                    `key "weight_map"`,
			`[]`:                                    `key "weight_map"`,
			`{"weight_map"`:                         "line 1",
		} {
			writeBytes(t, filepath.Join(dir, index), []byte(change))
			if _, err := c.Weights(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %s: %v, want … %s", index, change, err, want)
			}
		}
	}
}

func FuzzDecodeShardIndex(f *testing.F) {
	f.Add([]byte(`{"metadata": {"total_size": 16}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		shardOf, err := decodeShardIndex(data)
		if err != nil {
			return
		}
		for name, shard := range shardOf {
			if filepath.Join("d", shard) != "d/"+shard {
				t.Errorf("%q of %q leaves the directory", shard, name)
			}
		}
	})
}

func TestShardsMustFitTheirIndex(t *testing.T) {
	dir := t.TempDir()
	writeShards(t, dir, SafeWeightsIndexFile, true)
	c := open(t, dir)
	for text, want := range map[string]string{
		`{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors"}}`: `"b" is missing`,
		`{"weight_map": {"c": "model-00001-of-00002.safetensors"}}`:                                          `holds "a"`,
		`{"weight_map": {"a": "model-00003-of-00002.safetensors"}}`:                                          "model-00003-of-00002.safetensors is missing",
	} {
		writeBytes(t, filepath.Join(dir, SafeWeightsIndexFile), []byte(text))
		_, err := c.Weights()
		if file := (*FileError)(nil); !errors.As(err, &file) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want … %s", text, err, want)
		}
	}
}

func TestBinWeights(t *testing.T) {
	dir := t.TempDir()
	c := &Checkpoint{dir: dir}
	defer c.Close()
	for want, v := range map[string]any{
		"":                                      pyobj.NewDict("fc.weight", &pyobj.Parameter{Data: tensor.FromFloat32([]float32{1}, 1)}),
		"expected a dict, found list":           &pyobj.List{},
		`key "a": expected a tensor, found int`: pyobj.NewDict("a", 1),
		"expected the name of a tensor, found int 1": pyobj.NewDict(1, tensor.FromFloat32([]float32{1}, 1)),
	} {
		var out bytes.Buffer
		if err := torchfile.Write(&out, "pytorch_model", v); err != nil {
			t.Fatal(err)
		}
		writeBytes(t, filepath.Join(dir, BinWeightsFile), out.Bytes())
		weights, err := c.Weights()
		if want == "" {
			if err != nil || weights.Len() != 1 {
				t.Errorf("%v, %v", weights, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want … %s", err, want)
		}
	}
}

func TestWeightsOfAnUnknownDtype(t *testing.T) {
	header := `{"w":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}      `
	dir := t.TempDir()
	data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	writeBytes(t, filepath.Join(dir, SafeWeightsFile), append(append(data, header...), 1, 2, 3))
	_, err := open(t, dir).Weights()
	if file := (*FileError)(nil); !errors.As(err, &file) || file.Problem != Unsupported || !strings.Contains(err.Error(), `tensor "w" has dtype F6_E2M3`) {
		t.Errorf("error is %v", err)
	}
}

func TestOtherFormatsAreNamed(t *testing.T) {
	for file, want := range map[string]string{
		"adapter_model.safetensors": "merge the adapter",
		"pytorch_model_fsdp.bin":    "FSDP",
		"unknown.bin":               SafeWeightsFile + " is missing",
	} {
		dir := t.TempDir()
		writeBytes(t, filepath.Join(dir, file), []byte("x"))
		c := &Checkpoint{dir: dir}
		if _, err := c.Weights(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want … %s", file, err, want)
		}
	}
}
