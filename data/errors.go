package data

import (
	"fmt"
	"strings"
)

// TableError says what is wrong with a file of data, or with what was asked of it.
type TableError struct {
	Path    string
	Line    int    // counted from 1; 0 if it is not about one line
	Column  string // "" if it is not about one column
	Problem string
	Err     error // the cause, if it is another error
}

func (e *TableError) Unwrap() error { return e.Err }

func (e *TableError) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.Line > 0 {
		fmt.Fprintf(&b, ": line %d", e.Line)
	}
	if e.Column != "" {
		fmt.Fprintf(&b, ": column %q", e.Column)
	}
	b.WriteString(": ")
	b.WriteString(e.Problem)
	return b.String()
}
