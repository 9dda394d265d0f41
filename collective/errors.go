package collective

import (
	"errors"
	"fmt"
	"time"

	"rejoin/collective/wire"
)

var (
	// ErrClosed is returned by the operations of a group after Close.
	ErrClosed = errors.New("the group is closed")
	// ErrBusy is returned when an operation is called while another one runs.
	// The group stays usable.
	ErrBusy = errors.New("another operation of this group is running; a group runs one at a time")
	// ErrPeerLeft is wrapped when a rank was waited for that has closed its group.
	ErrPeerLeft = errors.New("it has closed its group")
)

// A rankError names the rank that is at fault. Every error of this package
// that can name one implements it, and so may the error that
// [Config.RootCause] returns.
type rankError interface {
	error
	FailedRank() int
}

// PeerError says that a rank is gone or has failed.
type PeerError struct {
	Rank  int    // the rank at fault
	Op    string // what this rank was doing, empty if nothing
	Seq   uint64 // the number of that operation, from 1
	Cause error
}

// Error names the rank, the operation and the cause.
func (e *PeerError) Error() string {
	return fmt.Sprintf("rank %d failed%s: %v", e.Rank, during(e.Op, e.Seq), e.Cause)
}

// Unwrap returns the cause.
func (e *PeerError) Unwrap() error { return e.Cause }

// FailedRank returns the rank at fault.
func (e *PeerError) FailedRank() int { return e.Rank }

// DeadlineError says that an operation ran out of time, and for whom it waited.
type DeadlineError struct {
	Rank  int // the rank waited for, at the end of the chain if that one waited too
	Op    string
	Seq   uint64
	After time.Duration // the deadline
}

// Error names the rank, the operation and the time waited.
func (e *DeadlineError) Error() string {
	return fmt.Sprintf("waited %v for rank %d%s; it may be stopped, stuck or far behind", e.After, e.Rank, during(e.Op, e.Seq))
}

// FailedRank returns the rank waited for.
func (e *DeadlineError) FailedRank() int { return e.Rank }

// Timeout reports true, as the net package's errors do.
func (e *DeadlineError) Timeout() bool { return true }

// Call is one rank's view of an operation.
type Call struct {
	Rank int
	wire.Fingerprint
	Step string // the step, when the calls agree and only that differs
}

func (c Call) String() string {
	s := fmt.Sprintf("rank %d: %v", c.Rank, c.Fingerprint)
	if c.Step != "" {
		s += ", " + c.Step
	}
	return s
}

// MismatchError says that two ranks called different operations, or the same
// with different lengths, types, roots or settings.
type MismatchError struct{ Calls [2]Call }

// Error shows both calls.
func (e *MismatchError) Error() string {
	hint := "every rank must make the same calls in the same order, with equal lengths"
	if e.Calls[0].Step != "" {
		hint = "every rank must use the same segment size"
	}
	return fmt.Sprintf("ranks %d and %d called different operations: %v; %v; %s",
		e.Calls[0].Rank, e.Calls[1].Rank, e.Calls[0], e.Calls[1], hint)
}

// SizeError says that an allgather would exceed [Config.MaxGatherBytes]. All
// ranks return it alike, and the group stays usable.
type SizeError struct {
	Sizes []uint64 // bytes offered, by rank
	Limit int
}

// Error shows the sizes and the limit.
func (e *SizeError) Error() string {
	return fmt.Sprintf("allgather of %v bytes per rank exceeds the limit of %d bytes in all", e.Sizes, e.Limit)
}

func during(op string, seq uint64) string {
	if op == "" {
		return ""
	}
	return fmt.Sprintf(" during %s number %d", op, seq)
}

// abortError is the end of a group by this rank's own decision.
type abortError struct {
	op    string
	seq   uint64
	cause error
}

func (e *abortError) Error() string {
	return fmt.Sprintf("group aborted%s: %v", during(e.op, e.seq), e.cause)
}
func (e *abortError) Unwrap() error { return e.cause }

// failedRank returns the rank that err names, or otherwise.
func failedRank(err error, otherwise int) int {
	if r, ok := errors.AsType[rankError](err); ok {
		return r.FailedRank()
	}
	return otherwise
}
