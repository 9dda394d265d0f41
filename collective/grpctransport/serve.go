package grpctransport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// serve takes one peer's stream from its first message to its end.
func (t *Transport) serve(s grpc.ServerStream) error {
	from, offer, err := t.admit(s.Context())
	if err != nil {
		return err
	}
	answer := metadata.Pairs(keyRank, strconv.Itoa(t.cfg.Rank))
	memory := t.openShared(from, offer)
	if memory != nil {
		defer memory.Close()
		answer.Set(keyShared, "taken")
	}
	if err := s.SendHeader(answer); err != nil {
		t.lose(from, fmt.Errorf("accepting its connection: %w", err))
		return err
	}
	for {
		var in incoming
		err := s.RecvMsg(&in)
		switch {
		case errors.Is(err, io.EOF):
			t.leave(from)
			return nil
		case err != nil:
			t.lose(from, fmt.Errorf("its connection broke, its process may have ended or be stopped: %w", err))
			return err
		case int(in.m.From) != from:
			in.m.Release()
			return t.refuse(from, fmt.Errorf("a message of rank %d on the stream of rank %d", in.m.From, from))
		}
		m := in.m
		if m.Shared {
			if m, err = resolve(memory, m); err != nil {
				return t.refuse(from, err)
			}
		}
		t.sink.Deliver(from, m)
	}
}

// refuse reports a peer that breaks the protocol, and returns its stream's end.
func (t *Transport) refuse(from int, err error) error {
	err = status.Error(codes.InvalidArgument, err.Error())
	t.lose(from, err)
	return err
}

// leave notes and passes on a goodbye.
func (t *Transport) leave(from int) {
	t.mu.Lock()
	t.peers[from].left = true
	quiet := t.closing
	t.mu.Unlock()
	if !quiet {
		t.sink.Left(from)
	}
}

// admit reads who opens a stream, and refuses strangers: another run's ranks,
// another generation's, and a second stream of the same rank. It also returns
// what memory the peer offers to share, empty for none.
func (t *Transport) admit(ctx context.Context) (from int, offer string, err error) {
	refuse := func(format string, args ...any) (int, string, error) {
		return 0, "", status.Error(codes.FailedPrecondition, fmt.Sprintf("rank %d refuses the connection: ", t.cfg.Rank)+fmt.Sprintf(format, args...))
	}
	md, _ := metadata.FromIncomingContext(ctx)
	get := func(key string) string {
		if v := md.Get(key); len(v) == 1 {
			return v[0]
		}
		return ""
	}
	if run := get(keyRun); run != t.cfg.RunID {
		return refuse("run %q, expected %q; this is another job's port", run, t.cfg.RunID)
	}
	if g := get(keyGeneration); g != strconv.FormatUint(t.cfg.Generation, 10) {
		return refuse("generation %q, expected %d; a rank of an earlier start is still running", g, t.cfg.Generation)
	}
	from, err = strconv.Atoi(get(keyRank))
	if err != nil || from < 0 || from >= len(t.cfg.Peers) || from == t.cfg.Rank {
		return refuse("rank %q of %d", get(keyRank), len(t.cfg.Peers))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.peers[from].came {
		return refuse("rank %d is connected already; two processes have the same rank", from)
	}
	t.peers[from].came = true
	return from, get(keyShared), nil
}
