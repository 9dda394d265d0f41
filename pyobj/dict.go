package pyobj

import "fmt"

// Kind tells the dict types apart.
type Kind uint8

// The dict types that checkpoints hold.
const (
	PlainDict Kind = iota
	OrderedDict
	Counter
	DefaultDict
)

// Dict is a Python dict: ordered, with keys of any hashable value.
type Dict struct {
	Kind Kind
	// Factory is a DefaultDict's default_factory.
	Factory any
	// State is what BUILD added: an OrderedDict's {'_metadata': …}; nil for none.
	State any

	entries []Entry
	index   map[any]int // by scalar key
}

// Entry is one item of a Dict.
type Entry struct{ Key, Value any }

// NewDict makes a plain dict of alternating keys and values.
// An odd number of arguments is a programmer's error.
func NewDict(pairs ...any) *Dict {
	if len(pairs)%2 != 0 {
		panic(fmt.Sprintf("pyobj: NewDict has a key without a value: %v", pairs[len(pairs)-1]))
	}
	d := &Dict{}
	for i := 0; i < len(pairs); i += 2 {
		d.Set(pairs[i], pairs[i+1])
	}
	return d
}

// hashable returns the map key for a scalar Python key; Python's True equals 1
// and 1.0, and so do they here.
func hashable(key any) (any, bool) {
	switch k := key.(type) {
	case nil, string, Bytes, int64, Global, Device, tensorDType:
		return k, true
	case int:
		return int64(k), true
	case bool:
		if k {
			return int64(1), true
		}
		return int64(0), true
	case float64:
		if i := int64(k); float64(i) == k {
			return i, true
		}
		return k, true
	case *Tuple, *Object, *Set:
		return k, true // by identity
	default:
		return nil, false
	}
}

// Set adds or replaces an item. A key that is not hashable (a list, a dict) is
// kept as an item of its own and found by no Get.
func (d *Dict) Set(key, value any) {
	if i, ok := key.(int); ok {
		key = int64(i)
	}
	h, ok := hashable(key)
	if ok {
		if at, found := d.index[h]; found {
			d.entries[at].Value = value
			return
		}
		if d.index == nil {
			d.index = map[any]int{}
		}
		d.index[h] = len(d.entries)
	}
	d.entries = append(d.entries, Entry{key, value})
}

// Get returns the value under key.
func (d *Dict) Get(key any) (any, bool) {
	h, ok := hashable(key)
	if !ok {
		return nil, false
	}
	at, found := d.index[h]
	if !found {
		return nil, false
	}
	return d.entries[at].Value, true
}

// Entries lists the items in order; the caller must not change the slice.
func (d *Dict) Entries() []Entry { return d.entries }

// Len is the number of items.
func (d *Dict) Len() int { return len(d.entries) }
