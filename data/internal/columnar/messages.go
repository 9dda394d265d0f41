package columnar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"
)

// The Arrow library allocates what a message's description claims, before it looks
// at how long the description is. So all vectors that it sizes by are checked here
// first. Slots are those of format/Message.fbs and Schema.fbs of Arrow 1.0 to 21.

// Values of a message's header type.
const (
	schemaMessage      = 1
	dictionaryMessage  = 2
	recordBatchMessage = 3
)

// The most fields of a schema, and the deepest nesting of these.
const (
	maxFields = 1 << 17
	maxDepth  = 64
)

// walk goes over the messages of a stream without reading their bodies, and counts
// the rows of the record batches. It panics or fails if a description is damaged.
func walk(in Input) (rows int, err error) {
	for at, first := int64(0), true; ; first = false {
		meta, next, err := readMeta(in, at)
		if err != nil {
			return 0, err
		}
		if meta == nil {
			if first {
				return 0, errors.New("the file has no schema")
			}
			return rows, nil
		}
		m := message(meta)
		kind, body := m.kind(), m.bodyLength()
		if first != (kind == schemaMessage) {
			return 0, fmt.Errorf("message at byte %d is of kind %d: expected a schema, once and first", at, kind)
		}
		if at = next; body < 0 || body > in.Size-at {
			return 0, fmt.Errorf("a message claims %d bytes of data, %d are left: the file is cut", body, in.Size-at)
		}
		at += body
		n, err := m.check(kind)
		if err != nil {
			return 0, err
		}
		if rows += n; rows < 0 || n > math.MaxInt32*1024 {
			return 0, fmt.Errorf("a record batch claims %d rows", n)
		}
	}
}

// readMeta reads the description of the message at a position, nil at the end, and
// gives where its body begins.
func readMeta(in Input, at int64) (meta []byte, body int64, err error) {
	if at == in.Size {
		return nil, 0, nil // the end marker may lack in an IPC file
	}
	var prefix [8]byte
	if in.Size-at < int64(len(prefix)) {
		return nil, 0, errors.New("the file ends within a message: it is cut")
	}
	if _, err := in.ReadAt(prefix[:], at); err != nil {
		return nil, 0, err
	}
	if binary.LittleEndian.Uint32(prefix[:]) != 0xffffffff {
		return nil, 0, fmt.Errorf("no message at byte %d: the file is damaged, or by an Arrow before 0.15", at)
	}
	length, at := int64(binary.LittleEndian.Uint32(prefix[4:])), at+int64(len(prefix))
	if length == 0 {
		return nil, 0, nil
	}
	if length < 8 || length > in.Size-at {
		return nil, 0, fmt.Errorf("a message's description claims %d bytes, %d are left: the file is cut", length, in.Size-at)
	}
	meta = make([]byte, length)
	_, err = in.ReadAt(meta, at)
	return meta, at + length, err
}

// description is a table of a message's description.
type description struct{ flatbuffers.Table }

// message is the root table.
func message(meta []byte) description {
	return description{flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}}
}

// slot gives the position of a field; 0 if it is not there. Slots count from 0.
func (d description) slot(i int) flatbuffers.UOffsetT {
	o := flatbuffers.UOffsetT(d.Offset(flatbuffers.VOffsetT(4 + 2*i)))
	if o == 0 {
		return 0
	}
	return d.Pos + o
}

func (d description) kind() byte {
	if at := d.slot(1); at != 0 {
		return d.GetByte(at)
	}
	return 0
}

func (d description) bodyLength() int64 { return d.long(3) }

func (d description) long(slot int) int64 {
	if at := d.slot(slot); at != 0 {
		return d.GetInt64(at)
	}
	return 0
}

func (d description) table(slot int) (inner description, ok bool) {
	at := d.slot(slot)
	if at == 0 {
		return description{}, false
	}
	return description{flatbuffers.Table{Bytes: d.Bytes, Pos: d.Indirect(at)}}, true
}

// vector gives where the elements of a vector begin and how many there are, having
// checked that they are there.
func (d description) vector(slot, width int) (begin flatbuffers.UOffsetT, n int, err error) {
	at := d.slot(slot)
	if at == 0 {
		return 0, 0, nil
	}
	at += d.GetUOffsetT(at)
	n = int(d.GetUint32(at))
	begin = at + flatbuffers.SizeUOffsetT
	if int64(n)*int64(width) > int64(len(d.Bytes))-int64(begin) {
		return 0, 0, fmt.Errorf("a message claims %d elements of %d bytes where it has %d bytes", n, width, len(d.Bytes))
	}
	return begin, n, nil
}

// check checks a message of a kind, and gives the rows of a record batch.
func (d description) check(kind byte) (rows int, err error) {
	header, ok := d.table(2)
	if !ok {
		return 0, errors.New("a message without a header")
	}
	switch kind {
	case schemaMessage:
		fields := 0
		if _, _, err := header.vector(2, 4); err != nil {
			return 0, err
		}
		return 0, header.checkFields(1, 0, &fields)
	case dictionaryMessage:
		batch, ok := header.table(1)
		if !ok {
			return 0, errors.New("a dictionary without data")
		}
		_, err := batch.checkBatch()
		return 0, err
	case recordBatchMessage:
		return header.checkBatch()
	}
	return 0, fmt.Errorf("a message of kind %d, which no stream has", kind)
}

// checkFields checks the fields of a schema or the children of a field.
func (d description) checkFields(slot, depth int, seen *int) error {
	begin, n, err := d.vector(slot, 4)
	if err != nil {
		return err
	}
	if *seen += n; *seen > maxFields || depth > maxDepth {
		return fmt.Errorf("a schema of more than %d fields, or %d deep", maxFields, maxDepth)
	}
	for i := range n {
		field := description{flatbuffers.Table{Bytes: d.Bytes, Pos: d.Indirect(begin + flatbuffers.UOffsetT(4*i))}}
		if _, _, err := field.vector(6, 4); err != nil { // custom_metadata
			return err
		}
		if err := field.checkFields(5, depth+1, seen); err != nil {
			return err
		}
	}
	return nil
}

// checkBatch checks a record batch and gives its rows.
func (d description) checkBatch() (rows int, err error) {
	for slot, width := range map[int]int{1: 16, 2: 16, 4: 8} { // nodes, buffers, variadicBufferCounts
		if _, _, err := d.vector(slot, width); err != nil {
			return 0, err
		}
	}
	n := d.long(0)
	if n < 0 || n > math.MaxInt {
		return 0, fmt.Errorf("a record batch claims %d rows", n)
	}
	return int(n), nil
}
