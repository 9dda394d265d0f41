package torchfile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rejoin/ckpt/internal/mapped"
	"rejoin/ckpt/internal/sniff"
	"rejoin/tensor"
)

// Options say how to read a file.
type Options struct {
	// MapLocation decides where each storage goes; nil means [tensor.CPU].
	MapLocation tensor.MapLocation
	// Describe turns unknown classes into *pyobj.Object: for files that are
	// looked at, such as training_args.bin. Otherwise they are refused.
	Describe bool
	// CheckCRC compares the checksum of every record and adds a warning for each
	// that has changed. It reads the whole file. See [File.CheckCRC].
	CheckCRC bool
}

// Format is a container that torch.save has written.
type Format uint8

// The containers.
const (
	Zip    Format = iota // since torch 1.6
	Legacy               // before
	Tar                  // before 0.1.10
)

func (f Format) String() string { return [...]string{"zip", "legacy", "tar"}[f] }

// Record is one record of a zip file.
type Record struct {
	Name     string // below the archive's directory, such as "data/0"
	Offset   int    // of its bytes in the file
	Bytes    int    // in the file
	Size     uint64 // of its content; more than Bytes if it is deflated
	CRC32    uint32 // of its content; 0 if it was not written
	Deflated bool
}

// File is an open file. Its tensors are views that are valid until Close.
type File struct {
	Path   string
	Format Format
	// ByteOrder is how the file's elements were written, "little" or "big";
	// the tensors are little-endian in any case.
	ByteOrder string
	// Warnings say what is odd about the file, though it could be read.
	Warnings []string

	object  any
	tags    map[string]int
	records []Record
	archive *archive
	mapping *mapped.File
}

// Open maps the file at path and reads its object. What it is is decided by its
// leading bytes and then checked, never by its name.
func Open(path string, o Options) (*File, error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := Read(m.Data, path, o)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	f.mapping = m
	return f, nil
}

// Read reads a file that is in memory; name stands in its errors. The tensors
// are views of data, which must not change.
func Read(data []byte, name string, o Options) (*File, error) {
	f := &File{Path: name, ByteOrder: "little"}
	var err error
	switch sniff.Bytes(data) {
	case sniff.TorchZip:
		err = f.readZip(data, o)
	case sniff.TorchLegacy:
		f.Format = Legacy
		err = f.readLegacy(data, o)
	case sniff.TorchTar:
		f.Format = Tar
		err = f.readTar(data, o)
	default:
		err = foreign(data)
	}
	if err != nil {
		return nil, inFile(name, err)
	}
	if o.CheckCRC {
		faults, err := f.CheckCRC(context.Background())
		if err != nil {
			return nil, err
		}
		f.Warnings = append(f.Warnings, faults...)
	}
	return f, nil
}

// foreign says what a file is that is not from torch.save.
func foreign(data []byte) error {
	e := &FormatError{Fault: NotTorch}
	e.Problem, e.Next = sniff.Problem(data)
	switch sniff.Bytes(data) {
	case sniff.Empty, sniff.Zeros:
		e.Fault = Truncated
	case sniff.Safetensors:
		e.Problem, e.Next = "the file is a safetensors file, not one of torch.save", "open it as safetensors"
	default:
	}
	return e
}

// Object is what was saved, in package pyobj's values.
func (f *File) Object() any { return f.object }

// Tags counts the storages by the device tag that they were saved with.
func (f *File) Tags() map[string]int { return maps.Clone(f.tags) }

// ForeignTags describes in one line the storages that were not saved as plain
// "cpu", such as "cuda:0 (8 storages), cuda:1 (8 storages)"; "" if there are none.
func (f *File) ForeignTags() string {
	var parts []string
	for _, tag := range slices.Sorted(maps.Keys(f.tags)) {
		if tag != "cpu" {
			parts = append(parts, fmt.Sprintf("%s (%d storages)", tag, f.tags[tag]))
		}
	}
	return strings.Join(parts, ", ")
}

// Records lists a zip file's records in the order of its directory; nil for
// another format. The caller must not change the slice.
func (f *File) Records() []Record { return f.records }

// Producer is the name of the archive's top directory, which torch takes from
// the name of the file it wrote first; "" for another format.
func (f *File) Producer() string {
	if f.archive == nil {
		return ""
	}
	return f.archive.top
}

// CheckCRC reads every record of a zip file and compares its checksum. It
// returns one sentence for each record that has changed since it was written.
// torch does not look at checksums: such a file loads, with wrong numbers.
func (f *File) CheckCRC(ctx context.Context) ([]string, error) {
	if f.archive == nil {
		return nil, nil
	}
	var faults []string
	for _, r := range f.archive.records {
		if err := ctx.Err(); err != nil {
			return faults, err
		}
		fault, err := f.archive.crcFault(r)
		if err != nil {
			return faults, inFile(f.Path, err)
		}
		if fault != "" {
			faults = append(faults, fault)
		}
	}
	return faults, nil
}

// Close unmaps the file. Its tensors must not be used any more.
func (f *File) Close() error {
	if f.mapping == nil {
		return nil
	}
	return f.mapping.Close()
}
