package collective

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"rejoin/collective/wire"
)

// maxNotice bounds a notice on the wire, in bytes.
const maxNotice = 64 << 10

// maxReason bounds the text of a cause within a notice, in bytes.
const maxReason = 16 << 10

// notice is what a rank tells the others when its group fails or may be about
// to, so that all ranks name the same cause. Exactly one field is set.
type notice struct {
	Call     *callNotice     `json:"call,omitempty"`
	Waits    *waitNotice     `json:"waits,omitempty"`
	Peer     *peerNotice     `json:"peer,omitempty"`
	Deadline *deadlineNotice `json:"deadline,omitempty"`
	Mismatch *MismatchError  `json:"mismatch,omitempty"`
}

// callNotice is no verdict: the sender has waited for some time in this call.
// Ranks that wait for each other in different calls find out by it.
type callNotice struct {
	wire.Fingerprint
}

// waitNotice is no verdict yet: the sender's deadline is over, or it has been
// told of another's, and it waits for a rank.
type waitNotice struct {
	For int `json:"for"`
}

type peerNotice struct {
	Rank  int    `json:"rank"`
	Cause string `json:"cause"`
}

type deadlineNotice struct {
	Rank  int           `json:"rank"`
	Op    string        `json:"op"`
	Seq   uint64        `json:"seq"`
	After time.Duration `json:"after"`
}

// errNotice is wrapped by every error of decodeNotice.
var errNotice = errors.New("malformed failure notice")

// noticeOf puts a verdict into words for the other ranks. An error without a
// rank is the fault of the rank that sends it.
func noticeOf(err error, self int) notice {
	if m, ok := errors.AsType[*MismatchError](err); ok {
		return notice{Mismatch: m}
	}
	if d, ok := errors.AsType[*DeadlineError](err); ok {
		return notice{Deadline: &deadlineNotice{d.Rank, d.Op, d.Seq, d.After}}
	}
	cause := err
	if p, ok := errors.AsType[*PeerError](err); ok {
		cause = p.Cause
	} else if a, ok := errors.AsType[*abortError](err); ok {
		cause = a.cause // what it was doing tells the others nothing
	}
	text := cause.Error()
	return notice{Peer: &peerNotice{failedRank(err, self), text[:min(len(text), maxReason)]}}
}

func (n notice) encode() ([]byte, error) {
	b, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("encoding a failure notice: %w", err)
	}
	return b, nil
}

// decodeNotice reads a notice; size is the number of ranks.
func decodeNotice(b []byte, size int) (notice, error) {
	var n notice
	if len(b) > maxNotice {
		return n, fmt.Errorf("%w: %d bytes", errNotice, len(b))
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return n, fmt.Errorf("%w: %w", errNotice, err)
	}
	ranks, set := []int{}, 0
	if n.Call != nil {
		set++
	}
	if n.Waits != nil {
		ranks, set = append(ranks, n.Waits.For), set+1
	}
	if n.Peer != nil {
		ranks, set = append(ranks, n.Peer.Rank), set+1
	}
	if n.Deadline != nil {
		ranks, set = append(ranks, n.Deadline.Rank), set+1
	}
	if n.Mismatch != nil {
		ranks, set = append(ranks, n.Mismatch.Calls[0].Rank, n.Mismatch.Calls[1].Rank), set+1
	}
	if set != 1 {
		return n, fmt.Errorf("%w: %d causes", errNotice, set)
	}
	for _, r := range ranks {
		if r < 0 || r >= size {
			return n, fmt.Errorf("%w: rank %d of %d", errNotice, r, size)
		}
	}
	return n, nil
}
