package torchfile

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// archive is a zip file of torch.save, over bytes in memory.
type archive struct {
	data    []byte
	top     string // the directory that all records sit in
	records []record
	byName  map[string]int // by the name below top

	mu       sync.Mutex     // guards what follows
	inflated int            // bytes of deflated records held in memory
	cache    map[int][]byte // their content
}

// record is one file of the archive.
type record struct {
	name       string // below the top directory
	from, to   int    // its bytes in the archive
	size       uint64 // when inflated
	crc        uint32
	compressed bool
}

// inflateFloor and inflateFactor bound what deflated records may grow to.
const (
	inflateFloor  = 64 << 20
	inflateFactor = 32
)

// openArchive reads the directory and holds it to torch's rules.
func openArchive(data []byte) (*archive, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, noDirectory(data, err)
	}
	a := &archive{data: data, byName: map[string]int{}, cache: map[int][]byte{}}
	for i, f := range z.File {
		if err := a.add(i, f); err != nil {
			return nil, err
		}
	}
	if len(a.records) == 0 {
		return nil, corrupt("", "the zip archive has no records")
	}
	if err := a.overlaps(); err != nil {
		return nil, err
	}
	return a, nil
}

// noDirectory explains a zip whose directory cannot be read: mostly a file that
// was cut, since the directory is at the end.
func noDirectory(data []byte, err error) error {
	if !errors.Is(err, zip.ErrFormat) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return corrupt("zip directory", "%v", err)
	}
	e := truncated("", "the file is truncated: the zip end record is missing after %d bytes", len(data))
	if whole, ok := expectedSize(data); ok && whole > uint64(len(data)) {
		e.Problem = fmt.Sprintf("the file is truncated: the zip end record is missing; %d of at least %d bytes are there", len(data), whole)
	}
	return e
}

// add takes one record of the directory.
func (a *archive) add(i int, f *zip.File) error {
	top, name, ok := strings.Cut(f.Name, "/")
	if i == 0 {
		a.top = top
	}
	where := fmt.Sprintf("record %q", f.Name)
	switch {
	case !ok || top != a.top:
		return corrupt(where, "is not under the archive's directory %q, as every record of torch.save is", a.top)
	case strings.Contains(f.Name, `\`) || slices.Contains(strings.Split(f.Name, "/"), ".."):
		return corrupt(where, "has a name that leads out of the archive")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return corrupt(where, "is compressed by method %d, which zip files of torch never are", f.Method)
	case f.Flags&1 != 0:
		return corrupt(where, "is encrypted")
	}
	from, err := f.DataOffset()
	if err != nil {
		return corrupt(where, "its header cannot be read: %v", err)
	}
	left := uint64(len(a.data)) - min(uint64(from), uint64(len(a.data)))
	if f.CompressedSize64 > left {
		return truncated(where, "claims %d bytes, %d are left in the file", f.CompressedSize64, left)
	}
	if f.Method == zip.Store && f.CompressedSize64 != f.UncompressedSize64 {
		return corrupt(where, "is stored, yet %d bytes stand for %d", f.CompressedSize64, f.UncompressedSize64)
	}
	if _, twice := a.byName[name]; twice {
		return corrupt(where, "is there twice")
	}
	a.byName[name] = len(a.records)
	a.records = append(a.records, record{
		name: name, from: int(from), to: int(from) + int(f.CompressedSize64), size: f.UncompressedSize64,
		crc: f.CRC32, compressed: f.Method == zip.Deflate,
	})
	return nil
}

// overlaps refuses records that share bytes.
func (a *archive) overlaps() error {
	sorted := slices.Clone(a.records)
	slices.SortFunc(sorted, func(x, y record) int { return x.from - y.from })
	for i := 1; i < len(sorted); i++ {
		if before := sorted[i-1]; before.to > sorted[i].from && before.to > before.from && sorted[i].to > sorted[i].from {
			return corrupt("record "+sorted[i].name, "overlaps record %s", before.name)
		}
	}
	return nil
}

func (a *archive) has(name string) bool {
	_, ok := a.byName[name]
	return ok
}

// read returns a record's content: a view of the archive, or a copy if it is
// deflated. A record that is read twice is inflated once.
func (a *archive) read(name string) ([]byte, error) {
	i, ok := a.byName[name]
	if !ok {
		return nil, corrupt("record "+name, "is missing from the archive")
	}
	r := a.records[i]
	raw := a.data[r.from:r.to:r.to]
	if !r.compressed {
		return raw, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if b, ok := a.cache[i]; ok {
		return b, nil
	}
	b, err := a.inflate(r, raw)
	if err == nil {
		a.cache[i] = b
	}
	return b, err
}

// inflate grows with what is really there, not with what the record claims.
func (a *archive) inflate(r record, raw []byte) ([]byte, error) {
	limit := inflateFloor + inflateFactor*len(a.data)
	if r.size > uint64(limit-a.inflated) {
		return nil, corrupt("record "+r.name, "claims to inflate to %d bytes from %d: out of all proportion", r.size, len(raw))
	}
	f := flate.NewReader(bytes.NewReader(raw))
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(f, int64(r.size)+1))
	if err != nil {
		return nil, corrupt("record "+r.name, "cannot be inflated: %v", err)
	}
	if uint64(n) != r.size {
		return nil, corrupt("record "+r.name, "does not inflate to the %d bytes it claims", r.size)
	}
	a.inflated += int(n)
	return buf.Bytes(), f.Close()
}

// crcFault is "" if a record's checksum is right or was never written.
func (a *archive) crcFault(r record) (string, error) {
	if r.crc == 0 {
		return "", nil // torch.serialization.set_crc32_options(False)
	}
	b, err := a.read(r.name)
	if err != nil {
		return "", err
	}
	if sum := crc32.ChecksumIEEE(b); sum != r.crc {
		return fmt.Sprintf("record %s: the checksum is %08x, expected %08x: some of its %d bytes have changed", r.name, sum, r.crc, len(b)), nil
	}
	return "", nil
}

// checkVersion holds the archive to the versions that torch knows.
// Source: caffe2/serialize/versions.h, kMin/kMaxSupportedFileFormatVersion.
func (a *archive) checkVersion() error {
	name := "version"
	if !a.has(name) {
		name = ".data/version"
	}
	if !a.has(name) {
		return corrupt("record version", "is missing from the archive: torch refuses such a file too")
	}
	b, err := a.read(name)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b[:min(len(b), 20)])), 10, 64)
	if err != nil {
		return corrupt("record version", "holds %q, expected a number", b[:min(len(b), 20)])
	}
	if n < 1 || n > 10 {
		e := corrupt("record version", "says format version %d, versions 1 to 10 are known", n)
		e.Fault = Unsupported
		return e
	}
	return nil
}

// byteOrder is "little" or "big".
func (a *archive) byteOrder() (string, error) {
	if !a.has("byteorder") {
		return "little", nil
	}
	b, err := a.read("byteorder")
	if err != nil {
		return "", err
	}
	if s := string(b); s == "little" || s == "big" {
		return s, nil
	}
	return "", corrupt("record byteorder", "holds %q, expected little or big", b[:min(len(b), 20)])
}
