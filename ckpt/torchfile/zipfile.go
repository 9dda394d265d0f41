package torchfile

import (
	"encoding/binary"
	"fmt"

	"rejoin/ckpt/torchfile/pickle"
	"rejoin/tensor"
)

// readZip reads a zip file of torch.save.
func (f *File) readZip(data []byte, o Options) error {
	a, err := openArchive(data)
	if err != nil {
		return err
	}
	f.archive = a
	for _, r := range a.records {
		f.records = append(f.records, Record{Name: r.name, Offset: r.from, Bytes: r.to - r.from, Size: r.size, CRC32: r.crc, Deflated: r.compressed})
	}
	if err := a.isTorchSave(); err != nil {
		return err
	}
	if err := a.checkVersion(); err != nil {
		return err
	}
	if f.ByteOrder, err = a.byteOrder(); err != nil {
		return err
	}
	text, err := a.read("data.pkl")
	if err != nil {
		return err
	}
	f.warnings()
	r := newRebuilder(o.MapLocation)
	r.find = func(key string, size uint64) ([]byte, error) { return a.storage(key, size) }
	if err := f.load(text, r, o); err != nil {
		return err
	}
	if f.ByteOrder == "big" {
		r.swapBytes()
	}
	return r.check()
}

// isTorchSave tells what else a zip archive may be.
func (a *archive) isTorchSave() error {
	switch {
	case a.has("constants.pkl"):
		return &FormatError{Fault: Unsupported, Problem: "the file is a TorchScript model (torch.jit.save), a program and not a state_dict", Next: "load it in torch and write model.state_dict() with torch.save"}
	case !a.has("data.pkl"):
		return &FormatError{Fault: NotTorch, Problem: "the file is a zip archive without data.pkl, so not from torch.save", Next: "name a file that torch.save wrote"}
	}
	return nil
}

// storage finds the record of a storage, which must have exactly its size.
func (a *archive) storage(key string, size uint64) ([]byte, error) {
	name := "data/" + key
	i, ok := a.byName[name]
	if !ok {
		return nil, corrupt("record "+name, "is missing from the archive, though a tensor needs it")
	}
	if have := a.records[i].size; have != size {
		e := corrupt("record "+name, "holds %d bytes, the pickle says %d", have, size)
		if have < size {
			e.Fault = Truncated
		}
		return nil, e
	}
	return a.read(name)
}

// load reads the pickle that holds the object.
func (f *File) load(text []byte, r *rebuilder, o Options) error {
	object, _, err := pickle.Load(text, pickle.Options{
		Describe: o.Describe, Global: r.global, Build: r.build, Persistent: r.persistentStorage,
	})
	f.object, f.tags = object, r.tags
	return err
}

// warnings notes what is odd about the archive and still loads.
func (f *File) warnings() {
	deflated := 0
	for _, r := range f.archive.records {
		if r.compressed {
			deflated++
		}
	}
	if deflated > 0 {
		f.warn("%d records are compressed, which torch.save never does: they are held in memory instead of being mapped", deflated)
	}
	if f.ByteOrder == "big" {
		f.warn("the file was written on a big-endian machine: its elements are turned round in memory")
	}
}

func (f *File) warn(format string, args ...any) {
	f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
}

// swapBytes turns a big-endian file's storages into little-endian copies.
func (r *rebuilder) swapBytes() {
	for _, s := range r.order {
		size := s.DType.Size()
		switch s.DType {
		case tensor.Complex128, tensor.Complex64, tensor.Complex32:
			size /= 2
		default:
		}
		if s.Class == untypedStorage {
			size = r.elementSize(s.Storage)
		}
		s.Storage.Data = swapped(s.Storage.Data, size)
	}
}

// elementSize is the size of the elements that the first tensor sees in an
// untyped storage.
func (r *rebuilder) elementSize(s *tensor.Storage) int {
	for _, p := range r.placed {
		if p.tensor.Storage == s {
			return p.tensor.DType.Size()
		}
	}
	return 1
}

func swapped(data []byte, size int) []byte {
	out := make([]byte, len(data))
	copy(out, data)
	for b := out; size > 1 && len(b) >= size; b = b[size:] {
		switch size {
		case 2:
			binary.LittleEndian.PutUint16(b, binary.BigEndian.Uint16(b))
		case 4:
			binary.LittleEndian.PutUint32(b, binary.BigEndian.Uint32(b))
		case 8:
			binary.LittleEndian.PutUint64(b, binary.BigEndian.Uint64(b))
		}
	}
	return out
}

// Bytes that a zip file takes for each record beside its name, twice, and its
// content; and at its end. torch writes padding and records of its own as well.
const (
	recordOverhead = 30 + 16 + 46
	endOverhead    = 22
)

// expectedSize works out, from the local header and pickle at the start of a zip
// file that was cut, how many bytes its storages take at least.
func expectedSize(data []byte) (uint64, bool) {
	const header = 30
	if len(data) < header {
		return 0, false
	}
	name := int(binary.LittleEndian.Uint16(data[26:]))
	extra := int(binary.LittleEndian.Uint16(data[28:]))
	from := header + name + extra
	if from > len(data) || binary.LittleEndian.Uint16(data[8:]) != 0 {
		return 0, false
	}
	r := newRebuilder(nil)
	_, length, err := pickle.Load(data[from:], pickle.Options{Describe: true, Global: r.global, Build: r.build, Persistent: r.persistentStorage})
	if err != nil {
		return 0, false
	}
	total := uint64(from+length+endOverhead) + uint64(name)
	for _, s := range r.order {
		total += uint64(s.NumElements)*uint64(s.DType.Size()) + recordOverhead + 2*uint64(name)
	}
	return total, true
}
