package trainer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rejoin/tensor"
)

// Group is the process group as the trainer needs it; *collective.Group meets
// it. Every rank must call the same operations in the same order.
type Group interface {
	Rank() int
	Size() int
	// AllReduceMean replaces buf on every rank by the mean over ranks, the same
	// bits everywhere: each value times float32(1/size) first, then summed, as
	// torch's DistributedDataParallel does.
	AllReduceMean(ctx context.Context, buf []float32) error
	// AllGather returns every rank's bytes, by rank.
	AllGather(ctx context.Context, mine []byte) ([][]byte, error)
}

// RankError is a failure that all ranks agreed upon: every rank returns it.
type RankError struct {
	Ranks []int // the ranks that failed in this way, ascending
	// Cause is the lowest of them's error: its own on that rank, its text elsewhere.
	Cause error
	// Mine is this rank's own error; nil if it did not fail itself.
	Mine error
}

func (e *RankError) Error() string { return e.Cause.Error() }
func (e *RankError) Unwrap() error { return e.Cause }

// Report is what rank is to print: equal errors are printed once, by the lowest
// rank that has them; every rank prints its own where it differs, or where
// torch would have printed one on each. "" is nothing.
func (e *RankError) Report(rank int) string {
	var torch *tensor.LocationError
	switch {
	case e.Mine == nil:
		return ""
	case errors.As(e.Mine, &torch):
		return "RuntimeError: " + torch.Error()
	case rank == e.Ranks[0], e.Mine.Error() != e.Cause.Error():
		return "error: " + e.Mine.Error()
	}
	return ""
}

// agree lets every rank learn every rank's outcome of a step that involved no
// other rank. It returns nil everywhere, or a *RankError everywhere: nobody
// goes on while another stops.
func agree(ctx context.Context, g Group, mine error) error {
	var text []byte
	if mine != nil {
		text = append([]byte{1}, mine.Error()...)
	}
	all, err := g.AllGather(ctx, text)
	if err != nil {
		return errors.Join(mine, err)
	}
	var failed *RankError
	for rank, t := range all {
		switch {
		case len(t) == 0:
			continue
		case failed == nil:
			failed = &RankError{Cause: errors.New(string(t[1:])), Mine: mine}
			if rank == g.Rank() {
				failed.Cause = mine
			}
		}
		failed.Ranks = append(failed.Ranks, rank)
	}
	if failed == nil {
		return nil
	}
	return failed
}

// agreeOn compares a value that must be the same on every rank, and names the
// ranks that differ from the most, or from rank 0 where there is no majority.
func agreeOn(ctx context.Context, g Group, what string, mine []byte) error {
	all, err := g.AllGather(ctx, mine)
	if err != nil {
		return err
	}
	reference := mostCommon(all)
	var differ []string
	for rank, v := range all {
		if !bytes.Equal(v, reference) {
			differ = append(differ, fmt.Sprint(rank))
		}
	}
	if differ == nil {
		return nil
	}
	return &DisagreementError{What: what, Ranks: differ}
}

// mostCommon is the value most ranks hold; of equally common ones the lowest rank's.
func mostCommon(all [][]byte) []byte {
	count := func(v []byte) (n int) {
		for _, w := range all {
			if bytes.Equal(v, w) {
				n++
			}
		}
		return n
	}
	return slices.MaxFunc(all, func(a, b []byte) int { return count(a) - count(b) })
}

// DisagreementError names ranks that hold another value than the rest.
type DisagreementError struct {
	What  string
	Ranks []string
}

func (e *DisagreementError) Error() string {
	return fmt.Sprintf("rank %s has another %s than the other ranks; every rank must see the same files and be the same program",
		strings.Join(e.Ranks, ", "), e.What)
}
