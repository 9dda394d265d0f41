package trainer_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
)

// watchedBuffer collects output and tells when a text is in it.
type watchedBuffer struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	grew chan struct{} // closed and replaced at each write
}

func (w *watchedBuffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.grew != nil {
		close(w.grew)
		w.grew = nil
	}
	return w.buf.Write(p)
}

func (w *watchedBuffer) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func (w *watchedBuffer) await(ctx context.Context, text string) bool {
	for {
		w.mu.Lock()
		found := strings.Contains(w.buf.String(), text)
		if w.grew == nil {
			w.grew = make(chan struct{})
		}
		grew := w.grew
		w.mu.Unlock()
		if found {
			return true
		}
		select {
		case <-grew:
		case <-ctx.Done():
			return false
		}
	}
}
