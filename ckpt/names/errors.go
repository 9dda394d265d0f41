package names

import (
	"fmt"
	"strings"
)

// PatternError is a pattern of key names that cannot be read.
type PatternError struct {
	Pattern string
	Err     error
}

func (e *PatternError) Error() string {
	return fmt.Sprintf("%q is no pattern of key names: %v; write a name, with * for any characters", e.Pattern, e.Err)
}

func (e *PatternError) Unwrap() error { return e.Err }

// ShapeMismatch is a key whose tensor has another shape than the parameter.
type ShapeMismatch struct {
	Name      string // of the parameter
	Key       string // of the file
	Got, Want []int  // the file's shape, the model's
}

// MismatchError lists every way in which the keys of a file do not fit a model.
type MismatchError struct {
	Matched    int      // parameters that have a key of the right shape
	Missing    []string // parameters without a key
	Unexpected []string // keys without a parameter
	Shapes     []ShapeMismatch
	Peeled     string   // the wrapper prefix under which the keys were compared
	Wrapped    []string // keys with a wrapper prefix, where others have none
}

func (e *MismatchError) Error() string {
	var b strings.Builder
	b.WriteString("the weights do not fit the model:")
	list := func(title string, names []string) {
		if len(names) > 0 {
			fmt.Fprintf(&b, "\n  %s (%d): %s", title, len(names), strings.Join(names, ", "))
		}
	}
	list("missing", e.Missing)
	list("unexpected", e.Unexpected)
	for _, s := range e.Shapes {
		fmt.Fprintf(&b, "\n  %s: the file has shape %v, the model %v", s.Key, s.Got, s.Want)
	}
	if e.Peeled != "" {
		fmt.Fprintf(&b, "\n  (compared without the prefix %q, which every key of the file has)", e.Peeled)
	}
	b.WriteString("\n" + e.Next())
	return b.String()
}

// Next is what to do about it.
func (e *MismatchError) Next() string {
	switch {
	case len(e.Wrapped) > 0:
		return fmt.Sprintf("%s and %d more keys have a wrapper's prefix and others have none, so no prefix was taken off: "+
			"make the names alike first, with: launch ckpt convert --strip-prefix", e.Wrapped[0], len(e.Wrapped)-1)
	case e.Matched == 0:
		return "no key of the file is a parameter of the model: name the file, or the model description, that belongs to the other"
	case len(e.Shapes) > 0:
		return "use the model description that the weights were trained with, or leave keys out with --skip KEY; nothing is broadcast"
	}
	return "use the model description that the weights were trained with, or leave keys out with --skip KEY and accept missing ones with --allow-missing"
}
