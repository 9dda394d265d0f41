package main

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
)

// SIGTERM ends what is done, which is awaited.
func TestInterruptible(t *testing.T) {
	awaited := false
	err := interruptible(t.Context(), func(ctx context.Context) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		awaited = true
		return ctx.Err()
	})
	if err == nil || !strings.Contains(err.Error(), "interrupted") || !awaited {
		t.Errorf("%v, awaited %v", err, awaited)
	}
}
