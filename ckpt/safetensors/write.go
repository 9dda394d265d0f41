package safetensors

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rejoin/tensor"
)

// Write writes the tensors and, unless it is nil, the metadata. Tensors that
// share a storage are each written in full. Equal input gives equal bytes.
func Write(w io.Writer, sd *tensor.StateDict, metadata map[string]string) error {
	entries, err := plan(sd)
	if err != nil {
		return err
	}
	header := renderHeader(entries, metadata)
	if len(header) > maxHeader {
		return fmt.Errorf("a header of %d bytes is too long, at most %d are allowed", len(header), maxHeader)
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))); err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, e := range entries {
		t, _ := sd.Get(e.Name)
		data, err := t.Bytes()
		if err != nil {
			return fmt.Errorf("tensor %s: %w", e.Name, err)
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// plan gives every tensor its place: by dtype, largest first, then by name.
// Source: prepare, safetensors 0.8, tensor.rs.
func plan(sd *tensor.StateDict) ([]Entry, error) {
	rank := map[string]int{}
	entries := make([]Entry, 0, sd.Len())
	for _, name := range sd.Names() {
		t, _ := sd.Get(name)
		r := rankOf(t.DType)
		if r < 0 {
			return nil, &UnsupportedDTypeError{name, t.DType.String()}
		}
		if t.Meta {
			return nil, fmt.Errorf("tensor %s is on the meta device: it has no elements to write", name)
		}
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", name, err)
		}
		if name == "__metadata__" {
			return nil, fmt.Errorf("a tensor cannot be called %s", name)
		}
		rank[name] = r
		entries = append(entries, Entry{Name: name, DType: dtypeRank[r].name, Shape: t.Shape})
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(rank[b.Name]-rank[a.Name], strings.Compare(a.Name, b.Name))
	})
	at := 0
	for i := range entries {
		t, _ := sd.Get(entries[i].Name)
		entries[i].Begin = at
		at += t.NumElements() * t.DType.Size()
		entries[i].End = at
	}
	return entries, nil
}

// renderHeader is the JSON header, filled up with spaces to a multiple of 8 bytes.
func renderHeader(entries []Entry, metadata map[string]string) []byte {
	b := []byte{'{'}
	comma := func() {
		if len(b) > 1 {
			b = append(b, ',')
		}
	}
	if metadata != nil {
		b = append(b, `"__metadata__":{`...)
		for i, key := range slices.Sorted(maps.Keys(metadata)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, key)
			b = append(b, ':')
			b = appendJSON(b, metadata[key])
		}
		b = append(b, '}')
	}
	for _, e := range entries {
		comma()
		b = appendJSON(b, e.Name)
		b = append(b, `:{"dtype":"`...)
		b = append(b, e.DType...)
		b = append(b, `","shape":[`...)
		for i, d := range e.Shape {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(d), 10)
		}
		b = fmt.Appendf(b, `],"data_offsets":[%d,%d]}`, e.Begin, e.End)
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	return b
}

// appendJSON escapes what serde_json escapes and nothing else.
func appendJSON(b []byte, s string) []byte {
	short := map[byte]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}
	b = append(b, '"')
	for i := range len(s) {
		c := s[i]
		if e, ok := short[c]; ok {
			b = append(b, '\\', e)
		} else if c < 0x20 {
			b = fmt.Appendf(b, `\u%04x`, c)
		} else {
			b = append(b, c)
		}
	}
	return append(b, '"')
}
