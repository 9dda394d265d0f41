package rendezvous

import (
	"fmt"
	"time"
)

// Launcher is the Rank of a Failure that is no rank's: the launcher itself, or
// the connection to it, is gone.
const Launcher = -1

// AddressVariable is the environment variable in which a launcher tells its
// workers the address of the rendezvous, host:port. MASTER_ADDR and MASTER_PORT
// are left to torch scripts.
const AddressVariable = "REJOIN_RENDEZVOUS"

// Member is what a rank says of itself when it joins.
type Member struct {
	RunID      string
	Generation int // must be the server's
	Rank       int
	WorldSize  int // must be the server's; 0 leaves it to the server
	PID        int
	Addr       string // where this rank's transport listens
}

// Peer is one rank as the others see it.
type Peer struct {
	Rank int
	Addr string
	PID  int
}

// World is the whole job, as one rank gets it. Peers are by rank and include
// this one.
type World struct {
	RunID      string
	Rank, Size int
	Generation int
	Peers      []Peer
	Job        []byte // the launcher's payload, not interpreted here
}

// Addrs returns the peers' addresses by rank.
func (w World) Addrs() []string {
	out := make([]string, len(w.Peers))
	for i, p := range w.Peers {
		out[i] = p.Addr
	}
	return out
}

// Failure is the first thing that went wrong in a job.
type Failure struct {
	Rank    int // or Launcher
	PID     int // 0 if not known
	Reason  string
	When    time.Time // as the server saw it
	Missing []int     // ranks that never joined, if that is the failure
	// Reported says that the rank told so itself and is about to end; only the
	// server's side knows.
	Reported bool
}

// String names the rank, its process and the reason.
func (f Failure) String() string {
	switch {
	case f.Rank == Launcher:
		return "the launcher: " + f.Reason
	case f.PID == 0:
		return fmt.Sprintf("rank %d: %s", f.Rank, f.Reason)
	}
	return fmt.Sprintf("rank %d (pid %d): %s", f.Rank, f.PID, f.Reason)
}

// PeerFailedError carries the job's first failure.
type PeerFailedError struct{ Failure Failure }

// Error is the failure's text.
func (e *PeerFailedError) Error() string { return e.Failure.String() }

// FailedRank returns the failed rank, for errors that ask for it.
func (e *PeerFailedError) FailedRank() int { return e.Failure.Rank }

// JoinTimeoutError says that some ranks did not join in time.
type JoinTimeoutError struct {
	Missing []int
	Waited  time.Duration
}

// Error lists the missing ranks.
func (e *JoinTimeoutError) Error() string {
	return fmt.Sprintf("waited %v for all ranks to join; missing: %s", e.Waited, list(e.Missing))
}

// Timeout reports true, as the net package's errors do.
func (e *JoinTimeoutError) Timeout() bool { return true }

// StaleJobError says that the server at this address serves another job, or
// another generation of it.
type StaleJobError struct {
	RunID, ServerRunID           string
	Generation, ServerGeneration int
	Ended                        bool // the job is this one, and is over
}

// Error shows both identities.
func (e *StaleJobError) Error() string {
	if e.Ended {
		return fmt.Sprintf("job %q has ended; this process belongs to an earlier start", e.RunID)
	}
	return fmt.Sprintf("stale job: this process is of job %q, generation %d; the server is of job %q, generation %d",
		e.RunID, e.Generation, e.ServerRunID, e.ServerGeneration)
}

// DuplicateRankError says that another process has this rank.
type DuplicateRankError struct{ Rank, PID, OtherPID int }

// Error names both processes.
func (e *DuplicateRankError) Error() string {
	return fmt.Sprintf("rank %d is taken by pid %d; this process (pid %d) was given the same rank", e.Rank, e.OtherPID, e.PID)
}

// WorldError says that a rank and the server do not agree on the world: its
// size, or the rank's place in it.
type WorldError struct{ Rank, WorldSize, ServerWorldSize int }

// Error shows both worlds.
func (e *WorldError) Error() string {
	if e.WorldSize == 0 {
		return fmt.Sprintf("rank %d is outside the server's world of %d", e.Rank, e.ServerWorldSize)
	}
	return fmt.Sprintf("rank %d of a world of %d does not fit the server's world of %d", e.Rank, e.WorldSize, e.ServerWorldSize)
}

// UnreachableError says that there is no rendezvous server at an address.
type UnreachableError struct {
	Addr  string
	Cause error
}

// Error names the address and the cause.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no rendezvous server at %s: %v; the launcher may have ended, or the address is of an earlier start", e.Addr, e.Cause)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// list renders ranks for people, cut after 16.
func list(ranks []int) string {
	s := "none"
	for i, r := range ranks {
		switch {
		case i == 0:
			s = fmt.Sprint(r)
		case i < 16:
			s += fmt.Sprintf(", %d", r)
		default:
			return fmt.Sprintf("%s and %d more", s, len(ranks)-i)
		}
	}
	return s
}
