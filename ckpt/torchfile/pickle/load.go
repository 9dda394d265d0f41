package pickle

import (
	"bytes"
	"errors"
	"fmt"

	gopickle "github.com/nlpodyssey/gopickle/pickle"

	"rejoin/pyobj"
)

// Call is a call that a pickle records, with converted values.
type Call struct {
	Func pyobj.Global
	Args []any
	// New tells an instance made by NEWOBJ from the result of calling Func.
	New bool
	// State is what BUILD gave; HasState tells None from nothing.
	State    any
	HasState bool
	Items    []any
	Pairs    *pyobj.Dict // nil for none
	// KeyPath says where the object stands; it costs an allocation.
	KeyPath func() string
}

// Options connect a pickle to the caller's classes. Any of them may be zero.
type Options struct {
	// Describe turns unknown classes into *pyobj.Object instead of an error.
	Describe bool
	// Global returns the value of a class or function that is known data.
	Global func(g pyobj.Global) (value any, known bool)
	// Build makes the result of a known call. Another is not its business.
	Build func(c *Call) (value any, known bool, err error)
	// Persistent makes what a persistent id stands for: a tuple or a string.
	Persistent func(id any) (any, error)
}

// Load reads the pickle that data begins with. It returns how many bytes of data
// the pickle took; nothing is demanded of what follows.
func Load(data []byte, o Options) (value any, length int, err error) {
	p, err := scan(data)
	if err != nil {
		return nil, 0, err
	}
	raw, err := run(p)
	if err != nil {
		return nil, 0, err
	}
	value, err = newConverter(o, p.length).root(raw, p.globals)
	if err != nil {
		return nil, 0, err
	}
	return value, p.length, nil
}

// Length checks the pickle that data begins with and returns its length.
func Length(data []byte) (int, error) {
	p, err := scan(data)
	if err != nil {
		return 0, err
	}
	return p.length, nil
}

// run interprets a scanned program. The scan has excluded every panic that is
// known of the interpreter; one that is not becomes an error here.
func run(p *program) (raw any, err error) {
	defer func() {
		if r := recover(); r != nil {
			raw, err = nil, fmt.Errorf("pickle: the interpreter failed: %v", r)
		}
	}()
	h := newHooks(p.globals)
	u := gopickle.NewUnpickler(bytes.NewReader(p.code))
	u.FindClass = h.findClass
	u.PersistentLoad = h.persistentLoad
	if raw, err = u.Load(); err != nil {
		if errors.Is(err, errTwoStates) {
			return nil, &ValueError{Err: err}
		}
		return nil, fmt.Errorf("pickle: %w", err)
	}
	return raw, nil
}
