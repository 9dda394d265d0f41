package rendezvous

import (
	"errors"
	"fmt"
	"time"

	pb "rejoin/proto/rendezvouspb"
)

const protocol = 1

func helloOf(m Member) *pb.Up {
	return &pb.Up{Kind: &pb.Up_Hello{Hello: &pb.Hello{
		Protocol: protocol, RunId: m.RunID, Rank: uint32(m.Rank), WorldSize: uint32(m.WorldSize),
		Generation: uint64(m.Generation), Pid: int64(m.PID), Addr: m.Addr,
	}}}
}

func memberOf(h *pb.Hello) Member {
	return Member{
		RunID: h.GetRunId(), Generation: int(h.GetGeneration()), Rank: int(h.GetRank()),
		WorldSize: int(h.GetWorldSize()), PID: int(h.GetPid()), Addr: h.GetAddr(),
	}
}

func failureOf(f *pb.Failure) Failure {
	return Failure{Rank: int(f.GetRank()), PID: int(f.GetPid()), Reason: f.GetReason(), When: time.Unix(0, f.GetWhenUnixNano())}
}

func downFailure(f Failure) *pb.Down {
	return &pb.Down{Kind: &pb.Down_Failure{Failure: &pb.Failure{
		Rank: uint32(f.Rank), Pid: int64(f.PID), Reason: f.Reason, WhenUnixNano: f.When.UnixNano(),
	}}}
}

// downRefused puts the core's typed errors on the wire; errorOf is its inverse.
func downRefused(err error) *pb.Down {
	r := &pb.Refused{Message: err.Error()}
	var (
		stale   *StaleJobError
		world   *WorldError
		dup     *DuplicateRankError
		timeout *JoinTimeoutError
		failed  *PeerFailedError
	)
	switch {
	case errors.As(err, &failed):
		return downFailure(failed.Failure)
	case errors.As(err, &stale):
		r.Code, r.RunId, r.Generation = pb.Refused_STALE_JOB, stale.ServerRunID, uint64(stale.ServerGeneration)
		if stale.Ended {
			r.Code = pb.Refused_CLOSED
		}
	case errors.As(err, &world):
		r.Code, r.WorldSize = pb.Refused_WORLD_SIZE, uint32(world.ServerWorldSize)
	case errors.As(err, &dup):
		r.Code, r.Pid = pb.Refused_DUPLICATE, int64(dup.OtherPID)
	case errors.As(err, &timeout):
		r.Code, r.WaitedMs = pb.Refused_JOIN_TIMEOUT, uint32(timeout.Waited.Milliseconds())
		for _, m := range timeout.Missing {
			r.Missing = append(r.Missing, uint32(m))
		}
	default:
		r.Code = pb.Refused_PROTOCOL
	}
	return &pb.Down{Kind: &pb.Down_Refused{Refused: r}}
}

// errorOf is the typed error of a refusal of m.
func errorOf(r *pb.Refused, m Member) error {
	switch r.GetCode() {
	case pb.Refused_STALE_JOB, pb.Refused_CLOSED:
		return &StaleJobError{
			RunID: m.RunID, ServerRunID: r.GetRunId(), Generation: m.Generation,
			ServerGeneration: int(r.GetGeneration()), Ended: r.GetCode() == pb.Refused_CLOSED,
		}
	case pb.Refused_WORLD_SIZE:
		return &WorldError{m.Rank, m.WorldSize, int(r.GetWorldSize())}
	case pb.Refused_DUPLICATE:
		return &DuplicateRankError{m.Rank, m.PID, int(r.GetPid())}
	case pb.Refused_JOIN_TIMEOUT:
		e := &JoinTimeoutError{Waited: time.Duration(r.GetWaitedMs()) * time.Millisecond}
		for _, x := range r.GetMissing() {
			e.Missing = append(e.Missing, int(x))
		}
		return e
	case pb.Refused_PROTOCOL, pb.Refused_CODE_UNSPECIFIED:
	}
	return fmt.Errorf("rendezvous: refused: %s", r.GetMessage())
}

// downWorld is the world for every rank alike.
func (c *core) downWorld(job []byte) *pb.Down {
	w := &pb.World{Generation: uint64(c.generation), Job: job}
	for _, r := range c.ranks {
		w.Peers = append(w.Peers, &pb.Peer{Addr: r.addr, Pid: int64(r.pid)})
	}
	return &pb.Down{Kind: &pb.Down_World{World: w}}
}

// worldOf is the world of rank m.
func worldOf(w *pb.World, m Member) World {
	out := World{RunID: m.RunID, Rank: m.Rank, Size: len(w.GetPeers()), Generation: int(w.GetGeneration()), Job: w.GetJob()}
	for i, p := range w.GetPeers() {
		out.Peers = append(out.Peers, Peer{Rank: i, Addr: p.GetAddr(), PID: int(p.GetPid())})
	}
	return out
}
