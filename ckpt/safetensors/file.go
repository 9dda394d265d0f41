package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"rejoin/ckpt/internal/mapped"
	"rejoin/ckpt/internal/sniff"
	"rejoin/tensor"
)

// maxHeader is the longest header that the format allows, in bytes.
const maxHeader = 100_000_000

// maxDims is the number of dimensions that torch allows.
const maxDims = 64

// Entry is one tensor as the header lists it.
type Entry struct {
	Name  string
	DType string // the format's name, such as "F8_E4M3"
	Shape []int
	// Begin and End are its bytes, counted from the header's end.
	Begin, End int
}

// File is an open file. Its tensors are views that are valid until Close.
type File struct {
	Path string

	entries  []Entry // in the order of the header
	metadata map[string]string
	state    *tensor.StateDict
	other    []Entry
	content  []byte // what follows the header
	mapping  *mapped.File
}

// Open maps the file at path and reads its header.
func Open(path string) (*File, error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := Read(m.Data, path)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	f.mapping = m
	return f, nil
}

// Read reads a file that is in memory; name stands in its errors. The tensors
// are views of data, which must not change.
func Read(data []byte, name string) (*File, error) {
	f := &File{Path: name, state: tensor.NewStateDict()}
	if err := f.read(data); err != nil {
		err.Path = name
		return nil, err
	}
	return f, nil
}

func (f *File) read(data []byte) *FormatError {
	if sniff.Bytes(data) != sniff.Safetensors {
		return foreign(data)
	}
	length := binary.LittleEndian.Uint64(data)
	if length > maxHeader {
		return corrupt("header", "claims %d bytes, at most %d are allowed", length, maxHeader)
	}
	if left := uint64(len(data) - 8); length > left {
		e := corrupt("header", "the file is truncated: the header takes %d bytes, %d are there", length, left)
		e.Truncated = true
		return e
	}
	header, content := data[8:8+length], data[8+length:]
	f.content = content
	if err := f.parse(header); err != nil {
		return err
	}
	if err := f.layout(len(data), len(content)); err != nil {
		return err
	}
	for _, e := range f.entries {
		_, d, _ := byName(e.DType)
		if d == tensor.Invalid {
			f.other = append(f.other, e)
			continue
		}
		f.state.Set(e.Name, &tensor.Tensor{
			DType: d, Shape: e.Shape, Stride: tensor.ContiguousStride(e.Shape),
			Storage: &tensor.Storage{Data: content[e.Begin:e.End:e.End], Device: "cpu", Key: e.Name},
		})
	}
	return nil
}

// foreign says what a file is that is no safetensors file.
func foreign(data []byte) *FormatError {
	e := &FormatError{}
	switch kind := sniff.Bytes(data); kind {
	case sniff.TorchZip, sniff.TorchLegacy, sniff.TorchTar:
		e.Problem, e.Next = "the file was written by torch.save, it is not a safetensors file", "open it as a torch file"
	default:
		e.Problem, e.Next = sniff.Problem(data)
		e.Truncated = kind == sniff.Empty || kind == sniff.Zeros
	}
	return e
}

// layout holds the tensors to their shapes and to each other: side by side, in
// some order, and covering all bytes.
func (f *File) layout(total, have int) *FormatError {
	sorted := slices.Clone(f.entries)
	slices.SortStableFunc(sorted, func(a, b Entry) int {
		if a.Begin != b.Begin {
			return a.Begin - b.Begin
		}
		return a.End - b.End
	})
	at := 0
	for _, e := range sorted {
		where := "tensor " + e.Name
		if e.Begin != at {
			return corrupt(where, "begins at byte %d of the data, expected %d: a hole or an overlap", e.Begin, at)
		}
		size, err := e.size()
		if err != nil {
			return corrupt(where, "%v", err)
		}
		if size != e.End-e.Begin {
			return corrupt(where, "%s of shape %v takes %d bytes, the header gives it %d", e.DType, e.Shape, size, e.End-e.Begin)
		}
		at = e.End
	}
	switch {
	case at > have:
		e := corrupt("", "the file is truncated: %d of %d bytes are there", total, total-have+at)
		e.Truncated = true
		return e
	case at < have:
		return corrupt("", "%d bytes follow the last tensor", have-at)
	}
	return nil
}

// size is what the dtype and shape take, in bytes.
func (e Entry) size() (int, error) {
	width, _, known := byName(e.DType)
	if !known {
		return e.End - e.Begin, nil
	}
	n := uint64(width)
	for _, d := range e.Shape {
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > 1<<62 {
			return 0, fmt.Errorf("shape %v overflows", e.Shape)
		}
		n = lo
	}
	if n%8 != 0 {
		return 0, fmt.Errorf("shape %v of %s does not fill whole bytes", e.Shape, e.DType)
	}
	return int(n / 8), nil
}

// StateDict is the tensors in the header's order.
func (f *File) StateDict() *tensor.StateDict { return f.state }

// Unsupported lists the tensors of a dtype that package tensor does not have;
// they are not in the StateDict. The caller must not change the slice.
func (f *File) Unsupported() []Entry { return f.other }

// Raw is the bytes of a tensor of any dtype, known here or not: a view of the file.
func (f *File) Raw(e Entry) []byte { return f.content[e.Begin:e.End:e.End] }

// Entries lists all tensors in the header's order; the caller must not change
// the slice.
func (f *File) Entries() []Entry { return f.entries }

// Metadata is a copy of the header's __metadata__; nil if it has none.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Close unmaps the file. Its tensors must not be used any more.
func (f *File) Close() error {
	if f.mapping == nil {
		return nil
	}
	return f.mapping.Close()
}
