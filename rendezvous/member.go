package rendezvous

import (
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "rejoin/proto/rendezvouspb"
)

// Member serves one rank from its hello to its end.
func (s *Server) Member(stream pb.Rendezvous_MemberServer) error {
	in := make(chan *pb.Up)
	ended := make(chan error, 1)
	s.work.Go(func() { ended <- receive(stream, in) })
	hello, err := s.firstMessage(in, ended)
	if err != nil {
		return err
	}
	m := memberOf(hello)
	box := make(chan *pb.Down, outboxMessages)
	if err := s.admit(hello, m, box); err != nil {
		return stream.Send(downRefused(err))
	}
	defer s.release(m.Rank)
	return s.converse(stream, m.Rank, box, in, ended)
}

// receive passes on what comes in until the stream ends.
func receive(stream pb.Rendezvous_MemberServer, in chan<- *pb.Up) error {
	for {
		up, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case in <- up:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s *Server) firstMessage(in <-chan *pb.Up, ended <-chan error) (*pb.Hello, error) {
	timer := time.NewTimer(helloWithin)
	defer timer.Stop()
	select {
	case up := <-in:
		if h := up.GetHello(); h != nil {
			return h, nil
		}
		return nil, status.Error(codes.InvalidArgument, "the first message must be a hello")
	case err := <-ended:
		return nil, err
	case <-timer.C:
		return nil, status.Errorf(codes.DeadlineExceeded, "no hello within %v", helloWithin)
	case <-s.stopping:
		return nil, nil
	}
}

// admit asks the core to let m in and queues the first answers.
func (s *Server) admit(h *pb.Hello, m Member, box chan *pb.Down) error {
	if h.GetProtocol() != protocol {
		return fmt.Errorf("protocol %d, expected %d; launcher and worker must be of the same build", h.GetProtocol(), protocol)
	}
	var refused error
	s.do(func(c *core, now time.Time) {
		if refused = c.hello(now, m); refused != nil {
			return
		}
		box <- &pb.Down{Kind: &pb.Down_Accepted{Accepted: &pb.Accepted{
			JoinTimeoutMs:       uint32(max(0, time.Until(c.joinUntil).Milliseconds())),
			HeartbeatIntervalMs: uint32(max(1, heartbeatInterval(s.cfg.HeartbeatTimeout).Milliseconds())),
		}}}
		s.outboxes[m.Rank] = box
	})
	return refused
}

// heartbeatInterval leaves room for several heartbeats to be late.
func heartbeatInterval(timeout time.Duration) time.Duration {
	return min(500*time.Millisecond, timeout/4)
}

func (s *Server) release(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outboxes[rank] = nil
}

// converse exchanges messages with an admitted rank until either side ends.
func (s *Server) converse(stream pb.Rendezvous_MemberServer, rank int, box <-chan *pb.Down, in <-chan *pb.Up, ended <-chan error) error {
	for {
		select {
		case d := <-box:
			if err := stream.Send(d); err != nil {
				s.broken(rank)
				return err
			}
		case up := <-in:
			if s.hear(rank, up) {
				return stream.Send(&pb.Down{Kind: &pb.Down_Goodbye{Goodbye: &pb.Goodbye{}}})
			}
		case err := <-ended:
			s.broken(rank)
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-s.stopping:
			return nil
		}
	}
}

// hear acts on a message and reports whether it is the rank's last.
func (s *Server) hear(rank int, up *pb.Up) (last bool) {
	s.do(func(c *core, now time.Time) {
		switch k := up.GetKind().(type) {
		case *pb.Up_Heartbeat:
			c.heartbeat(now, rank)
		case *pb.Up_Report:
			reason := k.Report.GetReason()
			c.report(now, rank, reason[:min(len(reason), maxReason)])
			last = true
		case *pb.Up_Leave:
			c.leave(now, rank)
			last = true
		}
	})
	return last
}

func (s *Server) broken(rank int) {
	if isClosed(s.stopping) {
		return
	}
	s.do(func(c *core, now time.Time) {
		c.broken(now, rank, "its connection to the launcher broke; its process may have died")
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
