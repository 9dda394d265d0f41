package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// told is a writer that tells of each write.
type told struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	wrote chan struct{}
}

func (w *told) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.buf.Write(p)
	w.wrote <- struct{}{}
	return n, err
}

// The first SIGTERM asks, the second ends; SIGUSR1 ends nothing.
func TestSignalsAskFirst(t *testing.T) {
	out := &told{wrote: make(chan struct{}, 8)}
	s := handleSignals("0", out)
	defer s.stop()
	raise := func(sig syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	within := func(what string, done <-chan struct{}) {
		t.Helper()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s did not happen", what)
		}
	}
	raise(syscall.SIGUSR1)
	raise(syscall.SIGTERM)
	within("the first SIGTERM's message", out.wrote)
	within("the end of waits before training", s.waiting.Done())
	if err := context.Cause(s.waiting); !errors.Is(err, errStoppedEarly) || !strings.Contains(err.Error(), "before training began") {
		t.Errorf("the cause is %v", err)
	}
	if s.ctx.Err() != nil {
		t.Error("the first SIGTERM ended the worker")
	}
	raise(syscall.SIGTERM)
	within("the second SIGTERM's end", s.ctx.Done())
	if text := out.buf.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "saving after this step") {
		t.Errorf("said %q", text)
	}
}

func TestInterruptEndsTheWorker(t *testing.T) {
	s := handleSignals("1", &told{wrote: make(chan struct{}, 1)})
	defer s.stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("SIGINT ended nothing")
	}
}
