package harness

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Line is a line of a job's output.
type Line struct {
	At   time.Duration // since the job began
	Rank int           // -1: the launcher's own
	Text string        // without the rank's prefix
}

// maxLines bounds what is kept of a job's output, so that a job which babbles
// does not fill the memory.
const maxLines = 100_000

// recorder keeps a job's output by line, and shows each line to a watcher.
type recorder struct {
	begun time.Time
	watch func(Line) // called in order, one line at a time

	mu    sync.Mutex
	lines []Line
	lost  int // lines beyond maxLines
}

// stream is one of the launcher's output streams, as an io.Writer.
type stream struct {
	to      *recorder
	pending []byte
}

// maxPending bounds a line that does not end.
const maxPending = 1 << 20

func (s *stream) Write(p []byte) (int, error) {
	s.pending = append(s.pending, p...)
	for {
		end := bytes.IndexAny(s.pending, "\r\n")
		if end < 0 && len(s.pending) < maxPending {
			return len(p), nil
		}
		if end < 0 {
			end = len(s.pending) - 1
		}
		s.to.add(string(s.pending[:end]))
		s.pending = append(s.pending[:0], s.pending[end+1:]...)
	}
}

// flush records a last line that did not end.
func (s *stream) flush() {
	if len(s.pending) > 0 {
		s.to.add(string(s.pending))
		s.pending = nil
	}
}

func (r *recorder) add(text string) {
	if text == "" {
		return
	}
	line := parseLine(strings.ToValidUTF8(text, "\uFFFD"))
	line.At = time.Since(r.begun)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) < maxLines {
		r.lines = append(r.lines, line)
	} else {
		r.lost++
	}
	r.watch(line)
}

// parseLine takes "[rankN]: " off.
func parseLine(text string) Line {
	if rest, ok := strings.CutPrefix(text, "[rank"); ok {
		number, rest, ok := strings.Cut(rest, "]: ")
		if n, err := strconv.Atoi(number); ok && err == nil {
			return Line{Rank: n, Text: rest}
		}
	}
	return Line{Rank: -1, Text: text}
}

// take returns what was recorded.
func (r *recorder) take() []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines
}
