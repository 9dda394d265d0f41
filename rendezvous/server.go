package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "rejoin/proto/rendezvouspb"
)

// Defaults of ServerConfig.
const (
	DefaultJoinTimeout      = 60 * time.Second
	DefaultHeartbeatTimeout = 5 * time.Second
)

// MaxJobBytes bounds ServerConfig.Job.
const MaxJobBytes = 16 << 20

const (
	suspicionGrace = 300 * time.Millisecond
	tickEvery      = 100 * time.Millisecond
	maxReason      = 64 << 10        // bytes of a reported reason that are kept
	helloWithin    = 5 * time.Second // for a connection to say who it is
	outboxMessages = 8               // more than a member is ever sent
)

// ErrConfig is wrapped by every error about a ServerConfig or a Member.
var ErrConfig = errors.New("rendezvous: configuration")

// ErrStopped is returned by Joined when the server is stopped first.
var ErrStopped = errors.New("rendezvous: the server was stopped")

// ServerConfig describes one generation of a job. RunID and WorldSize are
// required.
type ServerConfig struct {
	RunID      string
	WorldSize  int
	Generation int
	// Job is handed to every rank, at most MaxJobBytes. It is not copied.
	Job []byte
	// JoinTimeout runs from NewServer until every rank must have joined.
	JoinTimeout time.Duration
	// HeartbeatTimeout is the silence after which a rank counts as frozen.
	HeartbeatTimeout time.Duration
	// OnFailure is called once, with the job's first failure, and must not block.
	OnFailure func(Failure)
}

func (c ServerConfig) withDefaults() (ServerConfig, error) {
	if c.JoinTimeout == 0 {
		c.JoinTimeout = DefaultJoinTimeout
	}
	if c.HeartbeatTimeout == 0 {
		c.HeartbeatTimeout = DefaultHeartbeatTimeout
	}
	switch {
	case c.RunID == "":
		return c, fmt.Errorf("%w: no run id", ErrConfig)
	case c.WorldSize < 1:
		return c, fmt.Errorf("%w: world size %d, expected at least 1", ErrConfig, c.WorldSize)
	case c.Generation < 0:
		return c, fmt.Errorf("%w: generation %d", ErrConfig, c.Generation)
	case len(c.Job) > MaxJobBytes:
		return c, fmt.Errorf("%w: job payload of %d bytes, at most %d", ErrConfig, len(c.Job), MaxJobBytes)
	case c.JoinTimeout < 0 || c.HeartbeatTimeout < 0:
		return c, fmt.Errorf("%w: negative timeout", ErrConfig)
	}
	return c, nil
}

// Server is the launcher's end of a rendezvous.
type Server struct {
	pb.UnimplementedRendezvousServer

	cfg      ServerConfig
	grpc     *grpc.Server
	stopping chan struct{}
	joined   chan struct{} // closed when the world is complete
	failed   chan struct{} // closed when there is a failure
	finished chan struct{} // closed when every rank has left well
	work     sync.WaitGroup
	stopOnce sync.Once

	mu       sync.Mutex
	core     *core
	outboxes []chan *pb.Down // by rank; nil when not connected
}

// NewServer checks cfg and starts the join deadline.
func NewServer(cfg ServerConfig) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, core: newCore(cfg, time.Now()), outboxes: make([]chan *pb.Down, cfg.WorldSize),
		stopping: make(chan struct{}), joined: make(chan struct{}), failed: make(chan struct{}), finished: make(chan struct{}),
		grpc: grpc.NewServer(grpc.WaitForHandlers(true)),
	}
	pb.RegisterRendezvousServer(s.grpc, s)
	s.work.Go(s.watch)
	return s, nil
}

// Serve accepts ranks on l, which it owns, until Stop.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("rendezvous: serving %s: %w", l.Addr(), err)
	}
	return nil
}

// Stop ends the service: ranks that are still connected learn that the launcher
// is gone. It returns when everything has ended, and may be called again.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { close(s.stopping) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.Stop()
		s.work.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("rendezvous: stopping: %w", ctx.Err())
	}
}

// MarkFailed says that the launcher saw the process of a rank fail, and why.
// Unless something else failed earlier, every other rank is told at once.
func (s *Server) MarkFailed(rank int, reason string) {
	if rank < 0 || rank >= s.cfg.WorldSize {
		return
	}
	s.do(func(c *core, now time.Time) { c.markFailed(now, rank, reason) })
}

// FirstFailure returns the job's first failure, if there is one.
func (s *Server) FirstFailure() (Failure, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.core.failure == nil {
		return Failure{}, false
	}
	return *s.core.failure, true
}

// Missing returns the ranks that have not joined yet.
func (s *Server) Missing() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.missing()
}

// Joined waits until every rank has joined and returns them. It returns a
// *JoinTimeoutError or *PeerFailedError if that cannot be, and ErrStopped after
// Stop.
func (s *Server) Joined(ctx context.Context) ([]Peer, error) {
	select {
	case <-s.joined:
		return s.peers(), nil
	default:
	}
	select {
	case <-s.joined:
	case <-s.failed:
		s.mu.Lock()
		defer s.mu.Unlock()
		return nil, s.core.failureError()
	case <-s.stopping:
		return nil, ErrStopped
	case <-ctx.Done():
		return nil, fmt.Errorf("rendezvous: waiting for ranks %s: %w", list(s.Missing()), ctx.Err())
	}
	return s.peers(), nil
}

func (s *Server) peers() []Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	peers := make([]Peer, len(s.core.ranks))
	for i, r := range s.core.ranks {
		peers[i] = Peer{i, r.addr, r.pid}
	}
	return peers
}

// Finished is closed when every rank has left well.
func (s *Server) Finished() <-chan struct{} { return s.finished }

// watch ticks the core until Stop.
func (s *Server) watch() {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.stopping:
			return
		case now := <-ticker.C:
			s.do(func(c *core, _ time.Time) { c.tick(now) })
		}
	}
}

// do changes the core and then acts on what that led to.
func (s *Server) do(change func(c *core, now time.Time)) {
	s.mu.Lock()
	complete, failed := s.core.complete, s.core.failure != nil
	change(s.core, time.Now())
	if !complete && s.core.complete {
		close(s.joined)
		s.sendAll(s.core.downWorld(s.cfg.Job))
	}
	if s.core.finished() {
		select {
		case <-s.finished:
		default:
			close(s.finished)
		}
	}
	news := !failed && s.core.failure != nil
	if news {
		close(s.failed)
		s.sendAll(downRefusedOrFailure(s.core))
	}
	failure := s.core.failure
	s.mu.Unlock()
	if news && s.cfg.OnFailure != nil {
		s.cfg.OnFailure(*failure)
	}
}

// downRefusedOrFailure tells of c's failure: ranks that wait for missing ones
// are refused, all others get the failure.
func downRefusedOrFailure(c *core) *pb.Down {
	if c.timedOut {
		return downRefused(c.failureError())
	}
	return downFailure(*c.failure)
}

// sendAll queues d for every connected rank. The caller holds s.mu.
func (s *Server) sendAll(d *pb.Down) {
	for _, box := range s.outboxes {
		if box != nil {
			box <- d // has room: see outboxMessages
		}
	}
}
