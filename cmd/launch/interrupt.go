package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// interruptible does something until it is done or SIGINT or SIGTERM comes. Then
// it is awaited still, so that its processes and temporary files are gone.
func interruptible(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted; nothing half done is left behind")
	}
	return err
}
