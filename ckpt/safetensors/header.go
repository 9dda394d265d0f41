package safetensors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// parse reads the header, name by name, so that order and duplicates show.
func (f *File) parse(header []byte) *FormatError {
	if !utf8.Valid(header) {
		return corrupt("header", "is not UTF-8 text")
	}
	p := &headerReader{dec: json.NewDecoder(bytes.NewReader(header))}
	p.dec.UseNumber()
	seen := map[string]bool{}
	err := p.object(func(name string) error {
		if seen[name] {
			return fmt.Errorf("the name %q stands twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			return p.metadata(f)
		}
		e, err := p.entry(name)
		f.entries = append(f.entries, e)
		return err
	})
	if err == nil {
		if rest := bytes.TrimRight(header[p.dec.InputOffset():], " "); len(rest) > 0 {
			err = fmt.Errorf("%d bytes follow it", len(rest))
		}
	}
	if err != nil {
		return corrupt("header", "%v", err)
	}
	return nil
}

type headerReader struct{ dec *json.Decoder }

// object reads {"key": …}, calling each for every key to read its value.
func (p *headerReader) object(each func(key string) error) error {
	if err := p.delim('{'); err != nil {
		return err
	}
	for p.dec.More() {
		t, err := p.dec.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("found %v, expected a name", t)
		}
		if err := each(key); err != nil {
			return err
		}
	}
	return p.delim('}')
}

func (p *headerReader) delim(want json.Delim) error {
	t, err := p.dec.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("found %v, expected %v", t, want)
	}
	return nil
}

func (p *headerReader) text() (string, error) {
	t, err := p.dec.Token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("found %v, expected text", t)
	}
	return s, nil
}

func (p *headerReader) metadata(f *File) error {
	f.metadata = map[string]string{}
	return p.object(func(key string) error {
		if _, twice := f.metadata[key]; twice {
			return fmt.Errorf("the metadata key %q stands twice", key)
		}
		value, err := p.text()
		if err != nil {
			return fmt.Errorf("metadata %q: %w", key, err)
		}
		f.metadata[key] = value
		return nil
	})
}

// entry reads {"dtype": …, "shape": […], "data_offsets": [begin, end]}.
func (p *headerReader) entry(name string) (Entry, error) {
	e := Entry{Name: name}
	seen := map[string]bool{}
	err := p.object(func(key string) error {
		if seen[key] {
			return fmt.Errorf("%q stands twice", key)
		}
		seen[key] = true
		var err error
		switch key {
		case "dtype":
			e.DType, err = p.text()
		case "shape":
			e.Shape, err = p.numbers(maxDims)
		case "data_offsets":
			var at []int
			if at, err = p.numbers(2); err == nil && len(at) != 2 {
				err = fmt.Errorf("data_offsets has %d numbers, expected 2", len(at))
			}
			if err == nil {
				e.Begin, e.End = at[0], at[1]
			}
		default:
			err = fmt.Errorf("%q is not known", key)
		}
		return err
	})
	if err == nil && len(seen) != 3 {
		err = fmt.Errorf("dtype, shape and data_offsets are needed, %d of them are there", len(seen))
	}
	if err == nil && e.End < e.Begin {
		err = fmt.Errorf("data_offsets [%d, %d] end before they begin", e.Begin, e.End)
	}
	if err != nil {
		return e, fmt.Errorf("tensor %q: %w", name, err)
	}
	return e, nil
}

// numbers reads a list of at most limit sizes.
func (p *headerReader) numbers(limit int) ([]int, error) {
	if err := p.delim('['); err != nil {
		return nil, err
	}
	out := []int{}
	for p.dec.More() {
		t, err := p.dec.Token()
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(fmt.Sprint(t), 10, 62)
		if _, isNumber := t.(json.Number); err != nil || !isNumber {
			return nil, fmt.Errorf("found %v, expected a size", t)
		}
		if len(out) == limit {
			return nil, fmt.Errorf("a list has more than %d numbers", limit)
		}
		out = append(out, int(n))
	}
	return out, p.delim(']')
}
