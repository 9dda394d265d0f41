package torchfile

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
)

// alignment, in bytes, of every record's content, as torch 2.14 chooses it.
const alignment = 64

// writeChunk is how many bytes are written at once, so that what a writer looks
// at twice is still in a cache. Content of more is summed beside its writing.
const writeChunk = 256 << 10

// archiveWriter writes a zip file as torch's PyTorchStreamWriter and its miniz
// do: no compression, sizes in data descriptors, no times, a zip64 end record
// always. The first error stays and is returned by close.
// Source: caffe2/serialize/inline_container.cc and miniz 3.0.2.
type archiveWriter struct {
	w       io.Writer
	top     string
	offset  uint64
	central []byte
	count   uint64
	id      serializationID
	err     error
}

func newArchiveWriter(w io.Writer, top string) *archiveWriter { return &archiveWriter{w: w, top: top} }

func (z *archiveWriter) write(b []byte) {
	if z.err != nil {
		return
	}
	n, err := z.w.Write(b)
	z.offset += uint64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	z.err = err
}

var le = binary.LittleEndian

// record writes one record.
func (z *archiveWriter) record(name string, data []byte) {
	full := z.top + "/" + name
	if len(full) > math.MaxUint16 && z.err == nil {
		z.err = fmt.Errorf("record name of %d bytes is too long", len(full))
	}
	start, size := z.offset, uint64(len(data))
	flags := uint16(0x0808) // UTF-8 names; sizes follow the content
	if size == 0 {
		flags = 0x0800
	}
	z.write(localHeader(full, flags, start, size))
	sum := z.content(data)
	wide := size >= math.MaxUint32 || start >= math.MaxUint32
	if size > 0 {
		z.write(descriptor(sum, size, wide))
	}
	z.central = append(z.central, centralHeader(full, flags, sum, start, size)...)
	z.count++
	z.id.add(name, sum, size)
}

// content writes data and returns its checksum, which stands behind the data:
// what is long is summed while it is being written.
func (z *archiveWriter) content(data []byte) uint32 {
	if len(data) <= writeChunk {
		z.write(data)
		return crc32.ChecksumIEEE(data)
	}
	sum := make(chan uint32, 1)
	go func() { sum <- crc32.ChecksumIEEE(data) }()
	for chunk := range slices.Chunk(data, writeChunk) {
		z.write(chunk)
	}
	return <-sum
}

// zip64Extra is the extra field for what does not fit 32 bits; nil if all does.
func zip64Extra(sizes []uint64, start uint64) []byte {
	var fields []byte
	for _, v := range sizes {
		fields = le.AppendUint64(fields, v)
	}
	if start >= math.MaxUint32 {
		fields = le.AppendUint64(fields, start)
	}
	if fields == nil {
		return nil
	}
	extra := le.AppendUint16(nil, 1)
	extra = le.AppendUint16(extra, uint16(len(fields)))
	return append(extra, fields...)
}

// localHeader ends where the content begins, at a multiple of alignment: an
// extra field "FB" of Z's fills the gap.
func localHeader(name string, flags uint16, start, size uint64) []byte {
	var sizes []uint64
	if size >= math.MaxUint32 {
		sizes = []uint64{size, 0}
	}
	extra := zip64Extra(sizes, start)
	at := start + 30 + uint64(len(name)) + uint64(len(extra)) + 4
	padding := int(-at % alignment)
	extra = append(extra, 'F', 'B')
	extra = le.AppendUint16(extra, uint16(padding))
	for range padding {
		extra = append(extra, 'Z')
	}
	h := append([]byte("PK\x03\x04"), 0, 0)
	h = le.AppendUint16(h, flags)
	h = append(h, make([]byte, 18)...) // method, time, date, checksum, sizes
	h = le.AppendUint16(h, uint16(len(name)))
	h = le.AppendUint16(h, uint16(len(extra)))
	return append(append(h, name...), extra...)
}

func descriptor(sum uint32, size uint64, wide bool) []byte {
	d := le.AppendUint32([]byte("PK\x07\x08"), sum)
	for range 2 {
		if wide {
			d = le.AppendUint64(d, size)
		} else {
			d = le.AppendUint32(d, uint32(size))
		}
	}
	return d
}

func clamp32(v uint64) uint32 { return uint32(min(v, math.MaxUint32)) }

func centralHeader(name string, flags uint16, sum uint32, start, size uint64) []byte {
	var sizes []uint64
	if size >= math.MaxUint32 {
		sizes = []uint64{size, size}
	}
	extra := zip64Extra(sizes, start)
	h := append([]byte("PK\x01\x02"), 0, 0, 0, 0)
	h = le.AppendUint16(h, flags)
	h = append(h, make([]byte, 6)...) // method, time, date
	h = le.AppendUint32(h, sum)
	h = le.AppendUint32(h, clamp32(size))
	h = le.AppendUint32(h, clamp32(size))
	h = le.AppendUint16(h, uint16(len(name)))
	h = le.AppendUint16(h, uint16(len(extra)))
	h = append(h, make([]byte, 10)...) // comment, disk, attributes
	h = le.AppendUint32(h, clamp32(start))
	return append(append(h, name...), extra...)
}

// close writes the serialization id, the directory and the end records.
func (z *archiveWriter) close() error {
	z.record(".data/serialization_id", z.id.text())
	start, size := z.offset, uint64(len(z.central))
	z.write(z.central)
	end := z.offset
	tail := le.AppendUint64([]byte("PK\x06\x06"), 44)
	tail = le.AppendUint16(tail, 0x031e)
	tail = le.AppendUint16(tail, 45)
	tail = le.AppendUint64(tail, 0) // disk numbers
	for _, v := range []uint64{z.count, z.count, size, start} {
		tail = le.AppendUint64(tail, v)
	}
	tail = le.AppendUint32(append(tail, "PK\x06\x07"...), 0)
	tail = le.AppendUint64(tail, end)
	tail = le.AppendUint32(tail, 1)
	tail = le.AppendUint32(append(tail, "PK\x05\x06"...), 0)
	entries := uint16(min(z.count, math.MaxUint16))
	tail = le.AppendUint16(tail, entries)
	tail = le.AppendUint16(tail, entries)
	tail = le.AppendUint32(tail, clamp32(size))
	tail = le.AppendUint32(tail, clamp32(start))
	z.write(le.AppendUint16(tail, 0))
	return z.err
}
