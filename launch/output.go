package launch

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
)

const (
	// maxLine bounds what is held of a line that does not end; a longer one is
	// cut by a newline.
	maxLine = 16 << 20
	// tailBytes and tailLines bound what is kept of a stream's end for the report.
	tailBytes = 16 << 10
	tailLines = 20
)

// sink is a destination that several streams share. A lock common to the sinks
// of one job keeps the writes apart, so that lines stay whole on a terminal
// that shows both stdout and stderr.
type sink struct {
	lock *sync.Mutex
	w    io.Writer
	err  error // the first; what follows is dropped

	writes atomic.Int64 // completed writes, to tell a slow reader from a stuck one
}

func (s *sink) write(p []byte) {
	if len(p) == 0 {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.err == nil {
		_, s.err = s.w.Write(p)
	}
	s.writes.Add(1)
}

// splitter cuts a stream into whole lines and puts a prefix before each. A
// carriage return ends a line as a newline does, so that progress bars show as
// they move; without the prefixes the bytes are those that came in.
type splitter struct {
	prefix  []byte
	pending []byte // a line that has not ended
	scanned int    // how much of pending is known to hold no line's end
	out     []byte
	max     int
}

// feed takes bytes and returns the lines that they complete, valid until the next call.
func (s *splitter) feed(p []byte) []byte {
	s.out = s.out[:0]
	s.pending = append(s.pending, p...)
	rest := s.pending
	for {
		end := lineEnd(rest, s.scanned)
		if end < 0 {
			break
		}
		s.emit(rest[:end])
		rest, s.scanned = rest[end:], 0
	}
	s.pending = s.pending[:copy(s.pending, rest)]
	s.scanned = len(s.pending)
	if s.scanned > 0 && s.pending[s.scanned-1] == '\r' {
		s.scanned-- // a newline may follow
	}
	if len(s.pending) >= s.max {
		s.out = append(s.out, s.flushPending()...)
	}
	return s.out
}

// flush returns the last line, ended by a newline, if the stream did not end it.
func (s *splitter) flush() []byte {
	s.out = s.out[:0]
	return s.flushPending()
}

func (s *splitter) flushPending() []byte {
	if len(s.pending) == 0 {
		return nil
	}
	line := make([]byte, 0, len(s.prefix)+len(s.pending)+1)
	line = append(append(append(line, s.prefix...), s.pending...), '\n')
	s.pending, s.scanned = s.pending[:0], 0
	return line
}

func (s *splitter) emit(line []byte) {
	s.out = append(append(s.out, s.prefix...), line...)
}

// lineEnd gives the length of the first line in b, with its "\n", "\r\n" or
// "\r"; -1 if none is complete. b[:from] holds no line's end.
func lineEnd(b []byte, from int) int {
	nl := bytes.IndexByte(b[from:], '\n')
	search := b[from:]
	if nl >= 0 {
		search = search[:nl]
	}
	if cr := bytes.IndexByte(search, '\r'); cr >= 0 && cr+1 < len(search) {
		return from + cr + 1
	}
	if nl >= 0 {
		return from + nl + 1
	}
	return -1
}

// tail keeps the last bytes of a stream.
type tail struct{ buf []byte }

func (t *tail) add(p []byte) {
	if len(p) >= tailBytes {
		t.buf = append(t.buf[:0], p[len(p)-tailBytes:]...)
		return
	}
	if over := len(t.buf) + len(p) - tailBytes; over > 0 {
		t.buf = t.buf[:copy(t.buf, t.buf[over:])]
	}
	t.buf = append(t.buf, p...)
}

// lines gives the last lines, of what a terminal would show: of a line that was
// overwritten after carriage returns, the last version.
func (t *tail) lines() []string {
	var lines []string
	for raw := range bytes.Lines(t.buf) {
		raw = bytes.TrimRight(raw, "\r\n")
		if cr := bytes.LastIndexByte(raw, '\r'); cr >= 0 {
			raw = raw[cr+1:]
		}
		lines = append(lines, string(bytes.ToValidUTF8(raw, []byte("\uFFFD"))))
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return lines
}
