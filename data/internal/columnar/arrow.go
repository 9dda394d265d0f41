package columnar

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// arrowSource is the messages of an Arrow stream: a schema, then record batches.
type arrowSource struct {
	in     Input
	limits []ipc.Option
}

// fileMagic begins an Arrow IPC file, padded to 8 bytes, and ends it.
const fileMagic = "ARROW1"

// OpenArrow reads the messages' descriptions of an Arrow IPC file (Feather,
// version 2): it is a stream between a magic number and a footer.
func OpenArrow(in Input) (*File, error) {
	const begin, end = 8, 4 + len(fileMagic)
	tail := make([]byte, end)
	if in.Size < int64(begin+end) {
		return nil, errors.New("the file is cut")
	}
	if _, err := in.ReadAt(tail, in.Size-int64(end)); err != nil {
		return nil, err
	}
	footer := int64(binary.LittleEndian.Uint32(tail))
	if string(tail[4:]) != fileMagic || footer > in.Size-int64(begin+end) {
		return nil, errors.New("the file does not end with its footer: it is cut, or its writer was not closed")
	}
	return openArrow(in, begin, in.Size-int64(end)-footer)
}

// endOfStream is the marker after a stream's last message.
var endOfStream = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

// OpenArrowStream reads the messages' descriptions of an Arrow IPC stream, such as
// datasets' save_to_disk writes.
func OpenArrowStream(in Input) (*File, error) {
	end := make([]byte, len(endOfStream))
	if _, err := in.ReadAt(end, max(0, in.Size-int64(len(end)))); err != nil || !bytes.Equal(end, endOfStream) {
		return nil, errors.New("the stream has no end marker: it is cut, or its writer was not closed")
	}
	return openArrow(in, 0, in.Size)
}

// openArrow opens the stream between two positions of a file.
func openArrow(in Input, begin, end int64) (f *File, err error) {
	defer recoverTo(&err)
	src := &arrowSource{in: in.part(begin, end)}
	f = &File{source: src, budget: budgetOf(in.Size)}
	if f.Rows, err = walk(src.in); err != nil {
		return nil, err
	}
	src.limits = []ipc.Option{ipc.WithMetadataSizeLimit(in.Size), ipc.WithBodySizeLimit(in.Size)}
	r, err := src.open(newAllocator(f.budget))
	if err != nil {
		return nil, err
	}
	defer r.Release()
	f.setSchema(r.Schema())
	return f, nil
}

func (s *arrowSource) open(mem memory.Allocator) (*ipc.Reader, error) {
	options := append([]ipc.Option{ipc.WithAllocator(mem)}, s.limits...)
	messages := ipc.NewMessageReader(bufio.NewReaderSize(s.in.section(), 1<<18), options...)
	return ipc.NewReaderFromMessageReader(messages, options...)
}

func (s *arrowSource) column(i int, mem memory.Allocator, visit func(arrow.Array) error) error {
	r, err := s.open(mem)
	if err != nil {
		return err
	}
	defer r.Release()
	for r.Next() {
		if err := visit(r.RecordBatch().Column(i)); err != nil {
			return err
		}
	}
	return r.Err()
}
