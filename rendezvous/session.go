package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "rejoin/proto/rendezvouspb"
)

const (
	answerWithin = 10 * time.Second // for the server's first answer
	joinSlack    = 5 * time.Second  // beyond the server's own join deadline
)

// Session is one rank's presence in a job.
type Session struct {
	world  World
	member Member
	conn   *grpc.ClientConn
	stream pb.Rendezvous_MemberClient
	cancel context.CancelFunc // ends the stream
	turn   chan struct{}      // holds one token: whose turn it is to send
	failed chan struct{}      // closed when failure is set
	ended  chan struct{}      // closed when the stream has ended
	work   sync.WaitGroup

	mu      sync.Mutex
	failure *Failure
	bye     bool // this rank has said goodbye
}

// Join presents m to the server at an address (host:port) and waits for the
// whole world. The wait ends with the server's join deadline, or ctx. Errors
// are *UnreachableError, *StaleJobError, *WorldError, *DuplicateRankError,
// *JoinTimeoutError, *PeerFailedError, or ctx's.
func Join(ctx context.Context, server string, m Member) (*Session, error) {
	if m.Rank < 0 || m.WorldSize < 0 || m.Generation < 0 {
		return nil, fmt.Errorf("%w: rank %d, world size %d, generation %d", ErrConfig, m.Rank, m.WorldSize, m.Generation)
	}
	s, err := dial(server, m)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, s.cancel)
	every, err := s.enter(server)
	if !stop() && ctx.Err() != nil {
		err = fmt.Errorf("rendezvous: rank %d waiting to join: %w", m.Rank, context.Cause(ctx))
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.work.Go(s.listen)
	s.work.Go(func() { s.beat(every) })
	return s, nil
}

// dial opens the stream. It fails at once where nobody listens: the launcher
// holds its listener before it starts any rank.
func dial(server string, m Member) (*Session, error) {
	target := server
	if !strings.HasPrefix(server, "unix:") && !strings.HasPrefix(server, "unix-abstract:") {
		target = "passthrough:///" + server
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(), grpc.WithIdleTimeout(0), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxJobBytes+1<<20)))
	if err != nil {
		return nil, &UnreachableError{server, err}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Session{
		member: m, conn: conn, cancel: cancel, turn: make(chan struct{}, 1),
		failed: make(chan struct{}), ended: make(chan struct{}),
	}
	s.turn <- struct{}{}
	timer := time.AfterFunc(answerWithin, cancel)
	defer timer.Stop()
	if s.stream, err = pb.NewRendezvousClient(conn).Member(ctx); err != nil {
		s.close()
		return nil, &UnreachableError{server, plain(err)}
	}
	return s, nil
}

// enter says hello and waits to be accepted, then for the world. It returns the
// heartbeat interval.
func (s *Session) enter(server string) (time.Duration, error) {
	timer := time.AfterFunc(answerWithin, s.cancel)
	defer timer.Stop()
	if err := s.stream.Send(helloOf(s.member)); err != nil && !errors.Is(err, io.EOF) {
		return 0, &UnreachableError{server, plain(err)}
	}
	accepted, beating := (*pb.Accepted)(nil), sync.WaitGroup{}
	stop := make(chan struct{})
	defer func() { close(stop); beating.Wait() }()
	for {
		down, err := s.stream.Recv()
		if err != nil {
			return 0, notEntered(server, accepted, !timer.Stop(), err)
		}
		switch k := down.GetKind().(type) {
		case *pb.Down_Accepted:
			if accepted != nil {
				continue
			}
			accepted = k.Accepted
			timer.Reset(time.Duration(accepted.GetJoinTimeoutMs())*time.Millisecond + joinSlack)
			beating.Go(func() { s.beatUntil(stop, interval(accepted)) })
		case *pb.Down_Refused:
			return 0, errorOf(k.Refused, s.member)
		case *pb.Down_Failure:
			return 0, &PeerFailedError{failureOf(k.Failure)}
		case *pb.Down_World:
			if accepted == nil || s.member.Rank >= len(k.World.GetPeers()) {
				return 0, fmt.Errorf("rendezvous: the server at %s sent a world of %d without rank %d", server, len(k.World.GetPeers()), s.member.Rank)
			}
			s.world = worldOf(k.World, s.member)
			return interval(accepted), nil
		}
	}
}

// notEntered explains why the stream ended before the world came.
func notEntered(server string, accepted *pb.Accepted, late bool, err error) error {
	switch {
	case late && accepted != nil:
		return fmt.Errorf("rendezvous: the server at %s did not answer beyond its own join deadline; it may be stopped", server)
	case late:
		return &UnreachableError{server, fmt.Errorf("no answer within %v", answerWithin)}
	case accepted != nil:
		return &UnreachableError{server, fmt.Errorf("it went away while ranks were joining: %w", plain(err))}
	}
	return &UnreachableError{server, plain(err)}
}

func interval(a *pb.Accepted) time.Duration {
	return max(time.Millisecond, time.Duration(a.GetHeartbeatIntervalMs())*time.Millisecond)
}

// plain takes gRPC's wrapping off an error.
func plain(err error) error { return errors.New(status.Convert(err).Message()) }

// World returns who is in the job. The caller must not change it.
func (s *Session) World() World { return s.world }

// Failed is closed when the job has failed; Failure then says how.
func (s *Session) Failed() <-chan struct{} { return s.failed }

// Failure returns the job's first failure, if this rank knows of one.
func (s *Session) Failure() (Failure, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		return Failure{}, false
	}
	return *s.failure, true
}

// RootCause waits until the job has failed, or ctx ends, and returns the
// failure as a *PeerFailedError, or nil. It fits collective.Config.RootCause.
func (s *Session) RootCause(ctx context.Context) error {
	select {
	case <-s.failed:
	case <-ctx.Done():
	}
	if f, failed := s.Failure(); failed {
		return &PeerFailedError{f}
	}
	return nil
}

// Report says that this rank is failing, and why. If nothing failed earlier
// that is the job's first failure. It returns when the server has noted it, and
// ends the session.
func (s *Session) Report(ctx context.Context, reason string) error {
	return s.goodbye(ctx, &pb.Up{Kind: &pb.Up_Report{Report: &pb.Report{Reason: reason}}})
}

// Leave says that this rank has finished well, and ends the session when the
// server has noted it.
func (s *Session) Leave(ctx context.Context) error {
	return s.goodbye(ctx, &pb.Up{Kind: &pb.Up_Leave{Leave: &pb.Leave{}}})
}

// goodbye sends the session's last message and waits for the answer.
func (s *Session) goodbye(ctx context.Context, up *pb.Up) error {
	s.mu.Lock()
	again := s.bye
	s.bye = true
	s.mu.Unlock()
	if again {
		return nil
	}
	err := s.send(ctx, up)
	if err == nil {
		select {
		case <-s.ended: // also where ctx's end has cut the stream
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("rendezvous: no answer to the goodbye of rank %d: %w", s.member.Rank, ctx.Err())
		}
	}
	s.close()
	return err
}

func (s *Session) close() {
	s.cancel()
	s.work.Wait()
	_ = s.conn.Close() // its only error is that it is closed already
}

// send sends in its turn. When ctx ends first, nothing more can be sent.
func (s *Session) send(ctx context.Context, up *pb.Up) error {
	select {
	case <-s.turn:
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("rendezvous: rank %d waiting to send: %w", s.member.Rank, ctx.Err())
	}
	defer func() { s.turn <- struct{}{} }()
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	if err := s.stream.Send(up); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("rendezvous: rank %d sending: %w", s.member.Rank, plain(err))
	}
	return nil // after io.EOF, listen knows what happened
}

// beat sends heartbeats until the session ends.
func (s *Session) beat(every time.Duration) { s.beatUntil(s.ended, every) }

func (s *Session) beatUntil(stop <-chan struct{}, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	beat := &pb.Up{Kind: &pb.Up_Heartbeat{Heartbeat: &pb.Heartbeat{}}}
	for {
		select {
		case <-stop:
			return
		case <-s.stream.Context().Done():
			return
		case <-ticker.C:
			if err := s.send(s.stream.Context(), beat); err != nil {
				return // the stream is over, which listen reports
			}
		}
	}
}

// listen takes the server's messages until the stream ends.
func (s *Session) listen() {
	defer close(s.ended)
	for {
		down, err := s.stream.Recv()
		if err != nil {
			s.lost(err)
			return
		}
		switch k := down.GetKind().(type) {
		case *pb.Down_Failure:
			s.fail(failureOf(k.Failure))
		case *pb.Down_Goodbye:
			return
		}
	}
}

// lost notes the end of the stream, which is a failure unless this rank has
// said goodbye.
func (s *Session) lost(err error) {
	s.mu.Lock()
	bye := s.bye
	s.mu.Unlock()
	if !bye {
		s.fail(Failure{Rank: Launcher, When: time.Now(), Reason: fmt.Sprintf("its rendezvous service is gone (%v); it may have been killed", plain(err))})
	}
}

func (s *Session) fail(f Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = &f
		close(s.failed)
	}
}
