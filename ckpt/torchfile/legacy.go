package torchfile

import (
	"encoding/binary"
	"errors"
	"fmt"

	"rejoin/ckpt/torchfile/pickle"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// view resolves a legacy view (key, offset, size), in elements of its root.
func (r *rebuilder) view(root *pyobj.TypedStorage, meta any) (any, error) {
	items, err := pyobj.AsItems(meta)
	if err != nil || len(items) != 3 {
		return nil, fmt.Errorf("a view of storage %q is %s, expected (key, offset, size)", root.Storage.Key, pyobj.TypeName(meta))
	}
	key, ok := storageKey(items[0])
	offset, err1 := pyobj.AsInt(items[1])
	size, err2 := pyobj.AsInt(items[2])
	if !ok || err1 != nil || err2 != nil || offset < 0 || size < 0 || offset > int64(root.NumElements) || size > int64(root.NumElements)-offset {
		return nil, fmt.Errorf("a view of storage %q, which has %d elements, is out of it", root.Storage.Key, root.NumElements)
	}
	if v, ok := r.views[key]; ok {
		return v.view, nil
	}
	storage := &tensor.Storage{Device: root.Storage.Device, SavedDevice: root.Storage.SavedDevice, Key: key}
	v := &pyobj.TypedStorage{Class: root.Class, DType: root.DType, Storage: storage, NumElements: int(size)}
	r.views[key] = storageView{root: root, view: v, offset: int(offset)}
	return v, nil
}

// fillViews gives views their part of the root's bytes.
func (r *rebuilder) fillViews() {
	for _, v := range r.views {
		if size := v.view.DType.Size(); v.root.Storage.Data != nil {
			from, to := v.offset*size, (v.offset+v.view.NumElements)*size
			v.view.Storage.Data = v.root.Storage.Data[from:to:to]
		}
	}
}

// readLegacy reads the five pickles (magic, protocol, system, object, keys) and
// the storages that follow them.
// Source: torch.serialization._legacy_load, torch 2.14.
func (f *File) readLegacy(data []byte, o Options) error {
	p := &legacyReader{data: data}
	var protocol, system, keys any
	p.pickle("magic number", pickle.Options{})
	protocol = p.pickle("protocol version", pickle.Options{})
	system = p.pickle("system information", pickle.Options{})
	if p.err != nil {
		return p.err
	}
	if protocol != any(int64(1001)) {
		return corrupt("protocol version", "is %v, expected 1001", protocol)
	}
	if d, ok := system.(*pyobj.Dict); ok {
		if little, ok := d.Get("little_endian"); ok && little == any(false) {
			f.ByteOrder = "big"
			f.warn("the file was written on a big-endian machine: its elements are turned round in memory")
		}
	}
	r := newRebuilder(o.MapLocation)
	f.object = p.pickle("object", pickle.Options{Describe: o.Describe, Global: r.global, Build: r.build, Persistent: r.persistentStorage})
	keys = p.pickle("list of storages", pickle.Options{})
	if p.err != nil {
		return p.err
	}
	f.tags = r.tags
	if err := p.storages(keys, r); err != nil {
		return err
	}
	if f.ByteOrder == "big" {
		r.swapBytes()
	}
	r.fillViews()
	return r.check()
}

// legacyReader reads a run of pickles; the first error stays.
type legacyReader struct {
	data []byte
	pos  int
	err  error
}

func (p *legacyReader) pickle(what string, o pickle.Options) any {
	if p.err != nil {
		return nil
	}
	if p.pos >= len(p.data) {
		p.err = truncated(what, "the file is truncated: it ends after %d bytes, before its %s", len(p.data), what)
		return nil
	}
	v, n, err := pickle.Load(p.data[p.pos:], o)
	if err != nil {
		p.err = legacyFault(what, p.pos, err)
	}
	p.pos += n
	return v
}

// legacyFault tells where a pickle of the file is broken.
func legacyFault(what string, at int, err error) error {
	e := (*pickle.StreamError)(nil)
	if !errors.As(err, &e) {
		return err
	}
	fault := corrupt(fmt.Sprintf("%s, at byte %d", what, at), "")
	if e.Short {
		fault = truncated(fault.Where, "the file is truncated")
	}
	fault.Err = e
	return fault
}

// storages reads, for each key in order, its number of elements and its bytes.
func (p *legacyReader) storages(keys any, r *rebuilder) error {
	list, err := pyobj.AsItems(keys)
	if err != nil {
		return corrupt("list of storages", "is %s", pyobj.TypeName(keys))
	}
	for _, k := range list {
		key, _ := storageKey(k)
		s, ok := r.storages[key]
		if !ok {
			return corrupt("list of storages", "names %v, which no tensor uses", k)
		}
		if err := p.storage(s); err != nil {
			return err
		}
	}
	for _, s := range r.order {
		if s.Storage.Data == nil && s.NumElements > 0 && s.Storage.Device != "meta" {
			return corrupt("storage "+s.Storage.Key, "is not in the list of storages")
		}
	}
	return nil
}

func (p *legacyReader) storage(s *pyobj.TypedStorage) error {
	where := "storage " + s.Storage.Key
	if len(p.data)-p.pos < 8 {
		return truncated(where, "the file is truncated: it ends after %d bytes, before this storage", len(p.data))
	}
	count := binary.LittleEndian.Uint64(p.data[p.pos:])
	p.pos += 8
	if count != uint64(s.NumElements) {
		return corrupt(where, "has %d elements in the data and %d in the pickle", count, s.NumElements)
	}
	size := count * uint64(s.DType.Size())
	if left := uint64(len(p.data) - p.pos); size > left {
		return truncated(where, "the file is truncated: this storage takes %d bytes from byte %d on, %d of them are there", size, p.pos, left)
	}
	to := p.pos + int(size)
	s.Storage.Data = p.data[p.pos:to:to]
	p.pos = to
	return nil
}
