package pickle

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/nlpodyssey/gopickle/types"

	"rejoin/pyobj"
)

// converter turns the interpreter's values into package pyobj's. An object is
// converted once, so sharing and cycles survive.
type converter struct {
	o      Options
	done   map[any]any // by pointer
	making map[*node]bool
	// budget is how many more bytes may be copied out of the pickle: a short
	// pickle can ask for the same long bytes again and again.
	budget int
}

func newConverter(o Options, length int) *converter {
	return &converter{o: o, done: map[any]any{}, making: map[*node]bool{}, budget: memoryFloor + 16*length}
}

// place is a position in the object, for key paths.
type place struct {
	parent *place
	key    any
	depth  int
}

func (p *place) at(key any) *place { return &place{p, key, p.depth + 1} }

func (p *place) String() string {
	var keys []string
	for ; p != nil && p.parent != nil; p = p.parent {
		switch k := p.key.(type) {
		case string:
			keys = append(keys, k)
		case int:
			keys = append(keys, strconv.Itoa(k))
		case int64, bool, float64, nil:
			keys = append(keys, fmt.Sprint(k))
		default:
			keys = append(keys, "<"+pyobj.TypeName(k)+">")
		}
	}
	for i, j := 0, len(keys)-1; i < j; i, j = i+1, j-1 {
		keys[i], keys[j] = keys[j], keys[i]
	}
	return strings.Join(keys, ".")
}

// root converts the whole object. A forbidden class condemns it even if the
// object does not reach it.
func (c *converter) root(raw any, globals []pyobj.Global) (any, error) {
	value, err := c.value(raw, &place{})
	var unsupported *UnsupportedGlobalError
	if errors.As(err, &unsupported) && unsupported.Forbidden {
		return nil, err
	}
	for _, g := range globals {
		if forbidden(g) {
			return nil, &UnsupportedGlobalError{Global: g, Forbidden: true}
		}
	}
	return value, err
}

// charge takes n bytes from the budget.
func (c *converter) charge(n int) error {
	c.budget -= n
	if c.budget < 0 {
		return fmt.Errorf("the values would take far more memory than the pickle has bytes")
	}
	return nil
}

// atom converts a value that cannot fail and holds no other.
func atom(raw any) (any, bool) {
	switch v := raw.(type) {
	case nil, bool, float64, string:
		return v, true
	case int:
		return int64(v), true
	}
	return nil, false
}

func (c *converter) value(raw any, at *place) (any, error) {
	if v, ok := atom(raw); ok {
		return v, nil
	}
	switch v := raw.(type) {
	case *big.Int:
		if v.IsInt64() {
			return v.Int64(), nil
		}
		return v, nil
	case []byte:
		return pyobj.Bytes(v), c.charge(len(v))
	}
	if value, ok := c.done[raw]; ok {
		return value, nil
	}
	if at.depth > 4*MaxDepth {
		return nil, &ValueError{Err: fmt.Errorf("objects nest deeper than %d levels", 4*MaxDepth)}
	}
	return c.object(raw, at)
}

// object converts a value with an identity.
func (c *converter) object(raw any, at *place) (any, error) {
	switch v := raw.(type) {
	case *types.Tuple:
		tuple := &pyobj.Tuple{}
		c.done[raw] = tuple
		var err error
		tuple.Items, err = c.values(*v, at)
		return tuple, err
	case *types.List:
		list := &pyobj.List{}
		c.done[raw] = list
		var err error
		list.Items, err = c.values(*v, at)
		return list, err
	case *types.Dict:
		dict := &pyobj.Dict{}
		c.done[raw] = dict
		return dict, c.entries(dict, *v, at)
	case *types.ByteArray:
		array := &pyobj.ByteArray{Data: *v}
		c.done[raw] = array
		return array, nil
	case *class:
		return c.global(v, at)
	case *persistent:
		return c.persistent(v, at)
	case *node:
		return c.node(v, at)
	}
	return nil, &ValueError{at.String(), fmt.Errorf("a value of type %T is not known", raw)}
}

func (c *converter) values(raw []any, at *place) ([]any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	out := make([]any, len(raw))
	for i, v := range raw {
		var err error
		if a, ok := atom(v); ok {
			out[i] = a
		} else if out[i], err = c.value(v, at.at(i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *converter) entries(dict *pyobj.Dict, raw []types.DictEntry, at *place) error {
	for _, e := range raw {
		key, ok := atom(e.Key)
		if !ok {
			var err error
			if key, err = c.value(e.Key, at.at("key")); err != nil {
				return err
			}
		}
		if a, ok := atom(e.Value); ok {
			dict.Set(key, a)
			continue
		}
		value, err := c.value(e.Value, at.at(key))
		if err != nil {
			return err
		}
		dict.Set(key, value)
	}
	return nil
}

// global converts a class that is used as a value.
func (c *converter) global(v *class, at *place) (any, error) {
	if forbidden(v.Global) {
		return nil, &UnsupportedGlobalError{Global: v.Global, KeyPath: at.String(), Forbidden: true}
	}
	if c.o.Global != nil {
		if value, ok := c.o.Global(v.Global); ok {
			return value, nil
		}
	}
	if c.o.Describe || knownGlobals[v.Global] {
		return v.Global, nil
	}
	return nil, &UnsupportedGlobalError{Global: v.Global, KeyPath: at.String()}
}

func (c *converter) persistent(v *persistent, at *place) (any, error) {
	if c.o.Persistent == nil {
		return nil, &ValueError{at.String(), fmt.Errorf("a persistent id stands here, which only a file of torch.save has")}
	}
	id, err := c.value(v.id, at)
	if err != nil {
		return nil, err
	}
	value, err := c.o.Persistent(id)
	if err != nil {
		return nil, &ValueError{at.String(), err}
	}
	c.done[v] = value
	return value, nil
}
