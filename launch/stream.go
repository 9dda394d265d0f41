package launch

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// drainIdle is how long a pipe that an escaped process holds open may stay
	// silent after its worker's processes have ended.
	drainIdle = 250 * time.Millisecond
	// drainBytes bounds what is read after that end: the largest pipe an
	// unprivileged process may have (Linux, fs.pipe-max-size).
	drainBytes = 1 << 20
)

// stream carries one output of one worker from its pipe to a sink and a file.
type stream struct {
	pipe  *os.File // read end; owned
	sink  *sink    // nil: not shown
	file  io.WriteCloser
	split splitter
	tail  tail // safe to read once done is closed

	ended   atomic.Bool // the worker's processes have ended: drain and stop
	fileErr error
	done    chan struct{}
}

// run reads until the pipe's end, or, after end was called, until it is silent.
func (s *stream) run() {
	defer close(s.done)
	defer s.pipe.Close()
	buf := make([]byte, 64<<10)
	for left := drainBytes; left > 0; {
		n, err := s.pipe.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			n, err = s.readReady(buf)
		}
		s.take(buf[:n])
		if err != nil {
			break
		}
		if s.ended.Load() {
			left -= n
			s.armDeadline()
		}
	}
	s.show(s.split.flush())
	if s.file != nil {
		s.fileErr = errors.Join(s.fileErr, s.file.Close())
	}
}

// readReady reads what is in the pipe without waiting: a deadline may pass
// before the pipe was looked at. Nothing there is io.EOF.
func (s *stream) readReady(buf []byte) (n int, err error) {
	_ = s.pipe.SetReadDeadline(time.Time{})
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	var readErr error
	err = raw.Read(func(fd uintptr) bool {
		n, readErr = syscall.Read(int(fd), buf)
		return true
	})
	if err != nil || readErr != nil || n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (s *stream) take(p []byte) {
	s.tail.add(p)
	if s.file != nil && s.fileErr == nil && len(p) > 0 {
		_, s.fileErr = s.file.Write(p)
	}
	if s.sink != nil {
		s.show(s.split.feed(p))
	}
}

func (s *stream) show(p []byte) {
	if s.sink != nil {
		s.sink.write(p)
	}
}

// end says that nobody is expected to write any more.
func (s *stream) end() {
	s.ended.Store(true)
	s.armDeadline()
}

func (s *stream) armDeadline() { _ = s.pipe.SetReadDeadline(time.Now().Add(drainIdle)) }

// discard closes a stream that never ran.
func (s *stream) discard() {
	_ = s.pipe.Close()
	if s.file != nil {
		_ = s.file.Close()
	}
	close(s.done)
}

// last gives the stream's last lines; none while it is still being carried.
func (s *stream) last() []string {
	select {
	case <-s.done:
		return s.tail.lines()
	default:
		return nil
	}
}
