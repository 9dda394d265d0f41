package torchfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"strconv"

	"rejoin/ckpt/torchfile/pickle"
	"rejoin/pyobj"
)

// WriteLegacy writes obj in the format that torch.save wrote before torch 1.6:
// for programs that old, and for tests of what reads it. tag is as in
// [WriteTagged].
// Source: torch.serialization._legacy_save, torch 2.14.
func WriteLegacy(w io.Writer, obj any, tag func(storage int) string) error {
	plan := newPlan()
	plan.legacy, plan.tag = true, tag
	object, err := plan.encode(obj)
	if err != nil {
		return err
	}
	keys := &pyobj.List{}
	for i := range plan.order {
		keys.Items = append(keys.Items, strconv.Itoa(i))
	}
	var file []byte
	for _, v := range []any{legacyMagic(), int64(1001), legacySystem(), object, keys} {
		text, ok := v.([]byte)
		if !ok {
			if text, err = pickle.Dump(v, pickle.DumpOptions{}); err != nil {
				return err
			}
		}
		file = append(file, text...)
	}
	if _, err := w.Write(file); err != nil {
		return err
	}
	return plan.legacyStorages(w)
}

// legacyMagic is the number that a legacy file begins with.
func legacyMagic() *big.Int {
	magic, _ := new(big.Int).SetString("1950a86a20f9469cfc6c", 16)
	return magic
}

// legacySystem is what a legacy file tells about the machine that wrote it.
func legacySystem() *pyobj.Dict {
	return pyobj.NewDict("protocol_version", int64(1001), "little_endian", true,
		"type_sizes", pyobj.NewDict("short", int64(2), "int", int64(4), "long", int64(4)))
}

// legacyStorages writes each storage's number of elements and its bytes.
func (p *plan) legacyStorages(w io.Writer) error {
	sizes := map[int]int{}
	for at, key := range p.keys {
		sizes[key] = at.dtype.Size()
	}
	for i, s := range p.order {
		data, err := s.bytes()
		if err != nil {
			return fmt.Errorf("storage %d: %w", i, err)
		}
		count := binary.LittleEndian.AppendUint64(nil, uint64(len(data)/sizes[i]))
		if _, err := w.Write(append(count, data...)); err != nil {
			return err
		}
	}
	return nil
}
