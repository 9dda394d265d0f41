package torchfile

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"rejoin/ckpt/torchfile/pickle"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// readTar reads a file of torch before 0.1.10: a tar archive of storages,
// tensors and a pickle that names them by number.
// Source: torch.serialization._legacy_load, legacy_load, torch 2.14.
func (f *File) readTar(data []byte, o Options) error {
	members, err := tarMembers(data)
	if err != nil {
		return err
	}
	for _, name := range []string{"storages", "tensors", "pickle"} {
		if members[name] == nil {
			return &FormatError{Fault: NotTorch, Problem: fmt.Sprintf("the file is a tar archive without the member %q, so not from torch.save", name), Next: "unpack it and name the checkpoint in it"}
		}
	}
	t := &tarReader{r: newRebuilder(o.MapLocation), values: map[string]any{}}
	if err := t.storages(members["storages"]); err != nil {
		return err
	}
	if err := t.tensors(members["tensors"]); err != nil {
		return err
	}
	if err := t.r.check(); err != nil {
		return err
	}
	f.object, _, err = pickle.Load(members["pickle"], pickle.Options{
		Describe: o.Describe, Global: t.r.global, Build: t.r.build, Persistent: t.lookup,
	})
	f.tags = t.r.tags
	return err
}

// tarMembers finds the three members as views of data.
func tarMembers(data []byte) (map[string][]byte, error) {
	members := map[string][]byte{}
	counter := bytes.NewReader(data)
	r := tar.NewReader(counter)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return members, nil
		}
		if err != nil {
			return nil, truncated("tar archive", "the file of %d bytes is damaged or truncated: %v", len(data), err)
		}
		from := int64(len(data) - counter.Len())
		if h.Typeflag != tar.TypeReg || h.Size < 0 || h.Size > int64(len(data))-from {
			if h.Typeflag == tar.TypeReg {
				return nil, truncated("tar archive", "the file is truncated: member %q takes %d bytes from byte %d on, the file has %d", h.Name, h.Size, from, len(data))
			}
			continue
		}
		if _, twice := members[h.Name]; twice {
			return nil, corrupt("tar archive", "member %q is there twice", h.Name)
		}
		members[h.Name] = data[from : from+h.Size : from+h.Size]
	}
}

// tarReader holds storages, views and tensors by their numbers.
type tarReader struct {
	r      *rebuilder
	values map[string]any
}

// lookup resolves the persistent ids of the pickle: numbers as text.
func (t *tarReader) lookup(id any) (any, error) {
	key, ok := storageKey(id)
	if !ok {
		return nil, fmt.Errorf("a persistent id is %s, expected a number", pyobj.TypeName(id))
	}
	v, ok := t.values[key]
	if !ok {
		return nil, fmt.Errorf("the pickle uses tensor or storage %q, which the file does not hold", key)
	}
	return v, nil
}

// count reads a pickled number of entries. An entry takes more than a byte, so
// the number is bounded by the file.
func (p *legacyReader) count(what string) int {
	n, err := pyobj.AsInt(p.pickle("number of "+what, pickle.Options{}))
	if p.err == nil && (err != nil || n < 0 || n > int64(len(p.data))) {
		p.err = corrupt(what, "their number is not possible: %d", n)
	}
	return int(n)
}

// entry reads a pickled tuple of n values.
func (p *legacyReader) entry(what string, n int, o pickle.Options) []any {
	v := p.pickle(what, o)
	items, err := pyobj.AsItems(v)
	if p.err == nil && (err != nil || len(items) != n) {
		p.err = corrupt(what, "an entry is %s, expected a tuple of %d", pyobj.TypeName(v), n)
	}
	return items
}

// storages reads (key, location, class) and the bytes of each storage, then the
// list of views (key, root, offset, elements).
func (t *tarReader) storages(member []byte) error {
	p := &legacyReader{data: member}
	globals := pickle.Options{Global: t.r.global}
	for range p.count("storages") {
		entry := p.entry("storages", 3, globals)
		if p.err != nil {
			return p.err
		}
		if err := t.storage(p, entry); err != nil {
			return err
		}
	}
	views, err := pyobj.AsItems(p.pickle("storage views", globals))
	if p.err != nil {
		return p.err
	}
	if err != nil {
		return corrupt("storage views", "%v", err)
	}
	for _, v := range views {
		items, err := pyobj.AsItems(v)
		if err != nil || len(items) != 4 {
			return corrupt("storage views", "an entry is %s, expected a tuple of 4", pyobj.TypeName(v))
		}
		root, err := t.lookup(items[1])
		s, ok := root.(*pyobj.TypedStorage)
		if err != nil || !ok {
			return corrupt("storage views", "a view is of %v, which is no storage", items[1])
		}
		view, err := t.r.view(s, &pyobj.Tuple{Items: []any{items[0], items[2], items[3]}})
		if err != nil {
			return err
		}
		key, _ := storageKey(items[0])
		t.values[key] = view
	}
	t.r.fillViews()
	return nil
}

func (t *tarReader) storage(p *legacyReader, entry []any) error {
	key, ok1 := storageKey(entry[0])
	tag, ok2 := entry[1].(string)
	class, ok3 := entry[2].(pyobj.Global)
	if !ok1 || !ok2 || !ok3 {
		return corrupt("storages", "an entry is not (key, location, class)")
	}
	if len(p.data)-p.pos < 8 {
		return truncated("storage "+key, "the file is truncated before its size")
	}
	count := int64(binary.LittleEndian.Uint64(p.data[p.pos:]))
	s, err := t.r.storage(class, key, tag, count)
	if err != nil {
		return err
	}
	if s.Storage.Data != nil {
		return corrupt("storage "+key, "is there twice")
	}
	t.values[key] = s
	return p.storage(s)
}

// tensors reads (key, storage, class) and then, packed, the number of
// dimensions, sizes, strides and offset of each tensor.
func (t *tarReader) tensors(member []byte) error {
	p := &legacyReader{data: member}
	for range p.count("tensors") {
		entry := p.entry("tensors", 3, pickle.Options{Global: tensorClasses(t.r)})
		if p.err != nil {
			return p.err
		}
		key, ok := storageKey(entry[0])
		storage, err := t.lookup(entry[1])
		s, isStorage := storage.(*pyobj.TypedStorage)
		if err != nil || !ok || !isStorage {
			return corrupt("tensors", "an entry names storage %v, which the file does not hold", entry[1])
		}
		x := &tensor.Tensor{DType: s.DType, Storage: s.Storage}
		if x.Shape, x.Stride, x.Offset, err = p.geometry(); err != nil {
			return err
		}
		t.values[key] = t.r.tensorOf(x, func() string { return "tensor " + key })
	}
	return p.err
}

// tensorClasses knows the historic tensor classes, such as torch.FloatTensor.
func tensorClasses(r *rebuilder) func(pyobj.Global) (any, bool) {
	return func(g pyobj.Global) (any, bool) {
		if g.Module == "torch" || g.Module == "torch.cuda" {
			return g, true
		}
		return r.global(g)
	}
}

func (p *legacyReader) geometry() (shape, stride []int, offset int, err error) {
	short := truncated("tensors", "the file is truncated in a tensor's sizes")
	if len(p.data)-p.pos < 8 {
		return nil, nil, 0, short
	}
	dims := binary.LittleEndian.Uint32(p.data[p.pos:])
	p.pos += 8
	if dims > maxDims {
		return nil, nil, 0, corrupt("tensors", "a tensor has %d dimensions", dims)
	}
	if uint64(len(p.data)-p.pos) < 8*(2*uint64(dims)+1) {
		return nil, nil, 0, short
	}
	numbers := make([]int, 2*dims+1)
	for i := range numbers {
		numbers[i] = int(binary.LittleEndian.Uint64(p.data[p.pos:]))
		p.pos += 8
	}
	return numbers[:dims], numbers[dims : 2*dims], numbers[2*dims], nil
}
