package inspect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"

	"rejoin/ckpt/source"
	"rejoin/ckpt/tree"
	"rejoin/tensor"
)

// Options say what to look at.
type Options struct {
	// Hash adds the SHA-256 of every tensor, which reads the whole file.
	Hash bool
	// Progress, if set, is told how many bytes of total have been hashed.
	Progress func(done, total int64)
}

// Inspect describes an open source.
func Inspect(ctx context.Context, s *source.Source, o Options) (*Report, error) {
	r := &Report{Path: s.Path, Kind: string(s.Kind), Notes: s.Notes, Tensors: []Tensor{}, Others: []Other{}, DeviceTags: []string{}}
	in := &inspector{report: r, options: o, storages: map[*tensor.Storage]*shared{}}
	for _, p := range s.Parts {
		in.file(p)
		in.leaves(p)
		r.Optimizers = append(r.Optimizers, optimizersOf(p)...)
	}
	r.ForeignTags = tensor.ForeignTags(s.Tags())
	if o.Hash {
		if err := in.hash(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

type inspector struct {
	report   *Report
	options  Options
	storages map[*tensor.Storage]*shared
	tensors  []*tensor.Tensor // of the report's, in its order
}

// shared is what is known of a storage's users.
type shared struct {
	first string
	views map[string]string // key of the first tensor by its view
}

// file describes one file.
func (in *inspector) file(p *source.Part) {
	f := File{Name: p.Name, Module: p.Module}
	if info, err := os.Stat(p.Path); err == nil {
		f.Bytes = info.Size()
	}
	if p.Err != nil {
		f.Error = p.Err.Error()
	}
	if c := p.Checkpoint; c != nil {
		f.Format, f.Warnings = c.Format, c.Warnings
		f.Writer = writerOf(p)
		f.Metadata = c.Metadata()
		if t := c.Torch(); t != nil {
			f.ByteOrder = t.ByteOrder
		}
	} else if p.Role == source.Text && p.Err == nil {
		f.Format = "json"
	}
	in.report.Files = append(in.report.Files, f)
}

// leaves lists a file's tensors and other values.
func (in *inspector) leaves(p *source.Part) {
	for _, l := range p.Leaves {
		if t := l.Tensor(); t != nil {
			in.tensor(p, l, t)
		} else if raw, ok := l.Value.(*source.RawTensor); ok {
			in.raw(p, l, raw)
		} else {
			in.other(p, l)
		}
	}
}

func (in *inspector) next() int { return len(in.report.Tensors) + len(in.report.Others) }

func (in *inspector) other(p *source.Part, l tree.Leaf) {
	o := Other{File: p.Name, Key: l.Path(), Type: tree.TypeName(l.Value), Value: tree.Repr(l.Value), keys: l.Keys, at: in.next()}
	o.Opaque = isOpaque(l.Value)
	in.report.Others = append(in.report.Others, o)
}

// raw lists a tensor of a dtype that is not known here: its place is known, so
// it hides nothing else and can be hashed.
func (in *inspector) raw(p *source.Part, l tree.Leaf, raw *source.RawTensor) {
	size := int64(len(raw.Data))
	in.report.Tensors = append(in.report.Tensors, Tensor{
		File: p.Name, Key: l.Path(), DType: raw.DType, Shape: filled(raw.Shape), Stride: filled(tensor.ContiguousStride(raw.Shape)), Device: "cpu",
		Bytes: size, StoredBytes: size, keys: l.Keys, at: in.next(), raw: raw.Data,
	})
	in.tensors = append(in.tensors, nil)
	total := &in.report.Totals
	total.Tensors++
	total.Bytes += size
	total.StoredBytes += size
}

func (in *inspector) tensor(p *source.Part, l tree.Leaf, t *tensor.Tensor) {
	row := Tensor{
		File: p.Name, Key: l.Path(), DType: t.DType.String(), Shape: filled(t.Shape), Stride: filled(t.Stride), Offset: t.Offset,
		Device: deviceOf(t), RequiresGrad: t.RequiresGrad, keys: l.Keys, at: in.next(),
	}
	elements := int64(t.NumElements())
	total := &in.report.Totals
	total.Tensors++
	total.Elements += elements
	if !t.Meta {
		row.Bytes = elements * int64(t.DType.Size())
		row.StoredBytes = int64(len(t.Storage.Data))
		row.Storage = t.Storage.Key
		total.Bytes += row.Bytes
		in.share(&row, t)
	}
	if !slices.Contains(in.report.DeviceTags, row.Device) && p.Checkpoint.Torch() != nil {
		in.report.DeviceTags = append(in.report.DeviceTags, row.Device)
	}
	in.report.Tensors = append(in.report.Tensors, row)
	in.tensors = append(in.tensors, t)
}

// share notes with whom t shares its storage.
func (in *inspector) share(row *Tensor, t *tensor.Tensor) {
	view := fmt.Sprint(t.DType, t.Offset, t.Shape, t.Stride)
	users, ok := in.storages[t.Storage]
	switch {
	case !ok:
		in.report.Totals.StoredBytes += row.StoredBytes
		in.storages[t.Storage] = &shared{first: row.Key, views: map[string]string{view: row.Key}}
		return
	case users.views[view] != "":
		row.TiedTo = users.views[view]
	default:
		users.views[view] = row.Key
		row.SharesWith = users.first
	}
}

// filled makes an empty list where there is none, as JSON's [] says it.
func filled(v []int) []int { return append([]int{}, v...) }

// deviceOf is the tag a tensor was saved with.
func deviceOf(t *tensor.Tensor) string {
	switch {
	case t.Storage != nil && t.Storage.SavedDevice != "":
		return t.Storage.SavedDevice
	case t.Meta:
		return "meta"
	}
	return "cpu"
}

// hash fills in the tensors' hashes. Tied tensors are read once.
func (in *inspector) hash(ctx context.Context) error {
	done, sums := int64(0), map[string]string{}
	for i, t := range in.tensors {
		row := &in.report.Tensors[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		if t != nil && t.Meta {
			continue
		}
		place, data := "", row.raw
		if t != nil {
			place = fmt.Sprintf("%p %v %d %v %v", t.Storage, t.DType, t.Offset, t.Shape, t.Stride)
		}
		if row.SHA256 = sums[place]; row.SHA256 == "" {
			var err error
			if t != nil {
				if data, err = t.Bytes(); err != nil {
					return fmt.Errorf("%s: key %s: %w", row.File, row.Key, err)
				}
			}
			sum := sha256.Sum256(data)
			row.SHA256 = hex.EncodeToString(sum[:])
		}
		if place != "" {
			sums[place] = row.SHA256
		}
		done += row.Bytes
		if in.options.Progress != nil {
			in.options.Progress(done, in.report.Totals.Bytes)
		}
	}
	return nil
}

// writerOf says what wrote a file, as far as the file shows it.
func writerOf(p *source.Part) string {
	t := p.Checkpoint.Torch()
	if t == nil {
		if p.Checkpoint.Metadata()["format"] == "pt" {
			return "for PyTorch"
		}
		return ""
	}
	if t.Producer() == "" {
		return map[string]string{"legacy": "torch before 1.6, or torch.save(…, _use_new_zipfile_serialization=False)", "tar": "torch before 0.1.10"}[p.Checkpoint.Format]
	}
	has := func(name string) bool {
		for _, r := range t.Records() {
			if r.Name == name {
				return true
			}
		}
		return false
	}
	writer := "torch 1.6 to 2.0"
	switch {
	case has(".format_version"):
		writer = "torch later than 2.6, or Rejoin"
	case has("byteorder"):
		writer = "torch 2.1 to 2.6"
	}
	if t.Producer() != "archive" && !strings.HasPrefix(p.Name, t.Producer()+".") {
		writer += fmt.Sprintf(", first written as %s.*", t.Producer())
	}
	return writer
}
