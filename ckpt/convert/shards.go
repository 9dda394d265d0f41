package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"rejoin/ckpt/internal/bytesize"
	"rejoin/ckpt/tree"
	"rejoin/tensor"
)

// writeShards writes a directory of shards and their index, or one file if all
// fits, under the names that Hugging Face gives them.
func (c *conversion) writeShards(ctx context.Context, w *weights) error {
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return err
	}
	if err := c.noOtherWeights(); err != nil {
		return err
	}
	c.total = sizeOf(w.sd)
	shards := split(w.sd, c.options.MaxShardSize)
	base := weightsFile(c.options.To)
	stem, ext := strings.TrimSuffix(base, filepath.Ext(base)), filepath.Ext(base)
	writers, order, placed := map[string]func(io.Writer) error{}, []string{}, map[string]string{}
	for i, shard := range shards {
		name := base
		if len(shards) > 1 {
			name = fmt.Sprintf("%s-%05d-of-%05d%s", stem, i+1, len(shards), ext)
		}
		path := filepath.Join(c.out, name)
		write, err := c.fileWriter(w, shard, path)
		if err != nil {
			return err
		}
		writers[path], order = write, append(order, path)
		for _, key := range c.written(shard) {
			placed[key] = name
		}
	}
	if len(shards) > 1 {
		index, err := renderIndex(w.sd, placed, c.total)
		if err != nil {
			return err
		}
		path := filepath.Join(c.out, base+".index.json")
		writers[path], order = func(out io.Writer) error { _, err := out.Write(index); return err }, append(order, path)
	}
	return c.publish(ctx, writers, order)
}

// written are the keys that a shard's file has: without tied ones in safetensors.
func (c *conversion) written(shard *tensor.StateDict) []string {
	if c.options.To == Torch {
		return shard.Names()
	}
	kept, _ := (&weights{sd: shard}).untie()
	return kept.Names()
}

// noOtherWeights refuses a directory in which other weights would be taken for
// these, or mixed with them.
func (c *conversion) noOtherWeights() error {
	if c.options.Force {
		return nil
	}
	for _, pattern := range []string{"model*.safetensors", "pytorch_model*.bin", "*.index.json"} {
		found, err := fs.Glob(os.DirFS(c.out), pattern)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return &ExistsError{Path: filepath.Join(c.out, found[0])}
		}
	}
	return nil
}

// split divides the tensors in their order into shards of at most limit bytes.
// A larger tensor gets a shard of its own, and tensors that share a storage
// stand together. Source: split_state_dict_into_shards_factory, huggingface_hub.
func split(sd *tensor.StateDict, limit int64) []*tensor.StateDict {
	var shards []*tensor.StateDict
	shardOf, late := map[*tensor.Storage]*tensor.StateDict{}, []string{}
	current, size := tensor.NewStateDict(), int64(0)
	for _, name := range sd.Names() {
		t, _ := sd.Get(name)
		if t.Storage != nil && shardOf[t.Storage] != nil {
			late = append(late, name)
			continue
		}
		bytes := int64(t.NumElements() * t.DType.Size())
		if bytes > limit {
			alone := tensor.NewStateDict()
			alone.Set(name, t)
			shards, shardOf[t.Storage] = append(shards, alone), alone
			continue
		}
		if size+bytes > limit {
			shards = append(shards, current)
			current, size = tensor.NewStateDict(), 0
		}
		current.Set(name, t)
		shardOf[t.Storage] = current
		size += bytes
	}
	if current.Len() > 0 {
		shards = append(shards, current)
	}
	for _, name := range late {
		t, _ := sd.Get(name)
		shardOf[t.Storage].Set(name, t)
	}
	return shards
}

// renderIndex is the index as transformers writes it: indented by two, sorted,
// with a newline at its end.
func renderIndex(sd *tensor.StateDict, placed map[string]string, size int64) ([]byte, error) {
	elements, seen := 0, map[string]bool{}
	for _, name := range sd.Names() {
		t, _ := sd.Get(name)
		if view, ok := viewOf(t); ok && !seen[view] {
			seen[view] = true
			elements += t.NumElements()
		}
	}
	var b strings.Builder
	enc := json.NewEncoder(&b) // sorts the keys of maps
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	err := enc.Encode(map[string]any{
		"metadata":   map[string]any{"total_parameters": elements, "total_size": size},
		"weight_map": placed,
	})
	return []byte(b.String()), err
}

// countTensors counts an object's tensors and the bytes of its storages.
func countTensors(object any) (n int, size int64) {
	leaves, _ := tree.Walk(object) // what is beyond its bounds is not counted
	seen := map[*tensor.Storage]bool{}
	for _, l := range leaves {
		t := l.Tensor()
		if t == nil {
			continue
		}
		n++
		if t.Storage != nil && !seen[t.Storage] {
			seen[t.Storage] = true
			size += int64(len(t.Storage.Data))
		}
	}
	return n, size
}

// ParseSize reads a size such as "5GB" (decimal, as huggingface_hub does),
// "512MiB" or "1000000".
func ParseSize(text string) (int64, error) { return bytesize.Parse(text) }
