//go:build rejoin_fault

package fault

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Enabled tells a build that can be made to fail.
const Enabled = true

var (
	mu     sync.Mutex
	passed int
	plan   = sync.OnceValues(func() (spec, error) { return parse(os.Getenv("REJOIN_FAULT")) })
)

// At marks that the program has reached point. It returns the error that the
// step there is to fail with.
func At(point string) error {
	s, err := plan()
	if err != nil {
		return err
	}
	mu.Lock()
	if !s.meets(point, os.Getenv("RANK")) {
		mu.Unlock()
		return nil
	}
	passed++
	now := s.action == "list" || passed == s.count
	mu.Unlock()
	if !now {
		return nil
	}
	return s.act(point)
}

func (s spec) act(point string) error {
	switch s.action {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal comes
	case "fail":
		return syscall.EIO
	case "full":
		return syscall.ENOSPC
	case "delay":
		<-time.After(s.delay)
	case "list":
		f, err := os.OpenFile(s.file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = fmt.Fprintln(f, point)
		return err
	}
	return nil
}

// spec is a parsed REJOIN_FAULT.
type spec struct {
	point, rank, action string
	count               int
	delay               time.Duration
	file                string
}

func (s spec) meets(point, rank string) bool {
	return s.action != "" && (s.point == "*" || s.point == point) && (s.rank == "" || s.rank == rank)
}

func parse(text string) (spec, error) {
	s := spec{count: 1}
	if text == "" {
		return s, nil
	}
	where, action, _ := strings.Cut(text, ":")
	where, count, counted := strings.Cut(where, "#")
	s.point, s.rank, _ = strings.Cut(where, "@")
	action, value, _ := strings.Cut(action, "=")
	var err error
	if counted {
		s.count, err = strconv.Atoi(count)
	}
	switch action {
	case "kill", "fail", "full":
	case "delay":
		s.delay, err = time.ParseDuration(value)
	case "list":
		s.file = value
	default:
		err = fmt.Errorf("action %q", action)
	}
	s.action = action
	if err != nil || s.point == "" {
		return spec{}, fmt.Errorf("REJOIN_FAULT=%s is not POINT[@RANK][#N]:ACTION: %w", text, err)
	}
	return s, nil
}
