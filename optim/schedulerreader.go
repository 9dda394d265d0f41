package optim

import (
	"fmt"
	"math"
	"slices"

	"rejoin/pyobj"
)

const (
	maxLR    = math.MaxFloat64 // not infinity, not NaN
	maxCount = 1 << 53         // steps that float64 still counts
)

// schedulerReader reads a scheduler's state dict; the first error sticks.
type schedulerReader struct {
	dict   *pyobj.Dict
	known  []string
	groups int
	class  string // what the dict is expected to be
	err    error
}

func (r *schedulerReader) fail(key string, err error) {
	if err != nil && r.err == nil {
		r.err = stateError(key, err)
	}
}

func (r *schedulerReader) value(key string) (any, bool) {
	r.known = append(r.known, key)
	v, ok := r.dict.Get(key)
	if !ok {
		r.fail("", fmt.Errorf("not %s: key %q is missing; it has %s", r.class, key, keyList(r.dict)))
	}
	return v, ok
}

// extra copies the entries that nothing has read.
func (r *schedulerReader) extra() (entries []pyobj.Entry) {
	var c pyobj.Cloner
	for _, e := range r.dict.Entries() {
		if name, ok := e.Key.(string); !ok || !slices.Contains(r.known, name) {
			entries = append(entries, pyobj.Entry{Key: e.Key, Value: c.Clone(e.Value)})
		}
	}
	return entries
}

// has tells whether there is a key; it counts as known.
func (r *schedulerReader) has(key string) bool {
	r.known = append(r.known, key)
	_, ok := r.dict.Get(key)
	return ok
}

// rates reads a list of one learning rate for each group.
func (r *schedulerReader) rates(key string) []float64 {
	rates := r.list(key)
	if r.err == nil && len(rates) != r.groups {
		r.fail(key, fmt.Errorf("it has %d learning rates, the optimizer has %d parameter groups", len(rates), r.groups))
	}
	return rates
}

// list reads a list of learning rates.
func (r *schedulerReader) list(key string) []float64 {
	v, ok := r.value(key)
	if !ok {
		return nil
	}
	items, err := pyobj.AsItems(v)
	r.fail(key, err)
	rates := make([]float64, len(items))
	for i, item := range items {
		rates[i], err = readScalar(item)
		if err == nil && !(rates[i] >= 0 && rates[i] <= maxLR) {
			err = fmt.Errorf("%v is not a learning rate", rates[i])
		}
		r.fail(fmt.Sprintf("%s[%d]", key, i), err)
	}
	return rates
}

// count reads a number of steps, least or more.
func (r *schedulerReader) count(key string, least int64) int {
	v, ok := r.value(key)
	if !ok {
		return 0
	}
	n, err := pyobj.AsInt(v)
	if err == nil && (n < least || n > maxCount) {
		err = fmt.Errorf("%d is not a number of steps", n)
	}
	r.fail(key, err)
	return int(n)
}

// number reads a finite number.
func (r *schedulerReader) number(key string) float64 {
	v, ok := r.value(key)
	if !ok {
		return 0
	}
	f, err := readScalar(v)
	if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		err = fmt.Errorf("%v is not a finite number", f)
	}
	r.fail(key, err)
	return f
}

// word reads one of the words.
func (r *schedulerReader) word(key string, words ...string) string {
	v, ok := r.value(key)
	if !ok {
		return ""
	}
	s, _ := v.(string)
	if !slices.Contains(words, s) {
		r.fail(key, fmt.Errorf("found %v, expected one of %v", v, words))
	}
	return s
}

func floatList(values []float64) *pyobj.List {
	l := &pyobj.List{}
	for _, v := range values {
		l.Items = append(l.Items, v)
	}
	return l
}
