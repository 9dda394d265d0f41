package launch

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// piped gives a stream that shows in out, and the other end of its pipe.
func piped(t *testing.T, out *lineWatch) (*stream, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := newStream("> ", r, &sink{lock: new(sync.Mutex), w: out}, true)
	t.Cleanup(func() { _ = w.Close() })
	return s, w
}

func awaitDone(t *testing.T, s *stream) {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(testDeadline):
		t.Fatal("the stream did not end")
	}
}

func TestStreamEndsWithItsPipe(t *testing.T) {
	var out lineWatch
	s, w := piped(t, &out)
	go s.run()
	if s.last() != nil {
		t.Error("a tail before the end")
	}
	_, err := w.WriteString("one\ntwo")
	must(errors.Join(err, w.Close()))
	awaitDone(t, s)
	if got := out.String(); got != "> one\n> two\n" {
		t.Errorf("got %q", got)
	}
	if got := s.last(); len(got) != 2 || got[1] != "two" {
		t.Errorf("tail %q", got)
	}
}

// Somebody still holds the pipe open: what is in it comes through, and then
// the stream ends by itself.
func TestStreamEndsThoughThePipeIsHeld(t *testing.T) {
	var out lineWatch
	s, w := piped(t, &out)
	text := strings.Repeat("line\n", 10000) // within the pipe's 64 KiB
	_, err := w.WriteString(text)
	must(err)
	s.end()
	go s.run()
	awaitDone(t, s)
	if got := strings.ReplaceAll(out.String(), "> ", ""); got != text {
		t.Errorf("%d bytes came through of %d", len(got), len(text))
	}
	if _, err := w.WriteString("late"); err == nil {
		t.Error("the pipe is still open")
	}
}

// The deadline passed before the stream came to look at its pipe.
func TestStreamReadsWhatIsThereAfterTheDeadline(t *testing.T) {
	var out lineWatch
	s, w := piped(t, &out)
	_, err := w.WriteString("in time\n")
	must(err)
	s.ended.Store(true)
	must(s.pipe.SetReadDeadline(time.Unix(1, 0)))
	go s.run()
	awaitDone(t, s)
	if got := out.String(); got != "> in time\n" {
		t.Errorf("got %q", got)
	}
}

// A process that escaped writes without end: after the job's end at most
// a pipe's worth is taken from it.
func TestStreamStopsAnEndlessWriter(t *testing.T) {
	var out lineWatch
	s, w := piped(t, &out)
	written := make(chan int, 1)
	go func() {
		line, n := bytes.Repeat([]byte("x"), 4095), 0
		for {
			m, err := w.Write(append(line, '\n'))
			if n += m; err != nil {
				written <- n
				return
			}
		}
	}()
	s.end()
	go s.run()
	awaitDone(t, s)
	select {
	case n := <-written:
		if n < drainBytes || n > 2*drainBytes {
			t.Errorf("%d bytes were written, expected about %d", n, drainBytes)
		}
	case <-time.After(testDeadline):
		t.Error("the writer was not stopped")
	}
}

// brokenFile is a file that fails.
type brokenFile struct{ closed bool }

func (f *brokenFile) Write([]byte) (int, error) { return 0, errBroken }
func (f *brokenFile) Close() error              { f.closed = true; return nil }

func TestStreamShowsWhenItsFileFails(t *testing.T) {
	var out lineWatch
	s, w := piped(t, &out)
	file := &brokenFile{}
	s.file = file
	go s.run()
	_, err := w.WriteString("a\nb\n")
	must(errors.Join(err, w.Close()))
	awaitDone(t, s)
	if out.String() != "> a\n> b\n" || !errors.Is(s.fileErr, errBroken) || !file.closed {
		t.Errorf("shown %q, error %v, closed %v", out.String(), s.fileErr, file.closed)
	}
}

func TestDiscardedStream(t *testing.T) {
	var out lineWatch
	s, w := piped(t, &out)
	file := &brokenFile{}
	s.file = file
	s.discard()
	awaitDone(t, s)
	if _, err := w.WriteString("x"); err == nil || !file.closed {
		t.Errorf("pipe or file still open: %v, %v", err, file.closed)
	}
}

func TestSinkKeepsTheFirstError(t *testing.T) {
	s := &sink{lock: new(sync.Mutex), w: brokenWriter{}}
	s.write(nil)
	if s.err != nil || s.writes.Load() != 0 {
		t.Errorf("writing nothing: %v, %d writes", s.err, s.writes.Load())
	}
	s.write([]byte("a"))
	s.w = &lineWatch{}
	s.write([]byte("b"))
	if !errors.Is(s.err, errBroken) || s.w.(*lineWatch).String() != "" || s.writes.Load() != 2 {
		t.Errorf("error %v, then wrote %q, %d writes", s.err, s.w, s.writes.Load())
	}
}
