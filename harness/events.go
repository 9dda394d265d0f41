package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Rank is the life of one worker.
type Rank struct {
	Rank  int           `json:"rank"`
	PID   int           `json:"pid"`
	Start time.Duration `json:"start_ns"` // since the job began
	End   time.Duration `json:"end_ns"`   // 0: not seen
	// Code is the exit code, 128+n after signal n; -1 while it lives.
	Code int    `json:"code"`
	How  string `json:"how,omitempty"`
}

// readRanks reads the file that the launcher tells of its workers in. A worker
// that was started anew replaces the one before.
func readRanks(path string, begun time.Time) ([]Rank, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	byRank := map[int]*Rank{}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		var e struct {
			Event string
			Time  time.Time
			Rank  int
			PID   int
			Code  int
			How   string
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		switch {
		case e.Event == "start":
			byRank[e.Rank] = &Rank{Rank: e.Rank, PID: e.PID, Start: e.Time.Sub(begun), Code: -1}
		case e.Event == "exit" && byRank[e.Rank] != nil:
			r := byRank[e.Rank]
			r.End, r.Code, r.How = e.Time.Sub(begun), e.Code, e.How
		}
	}
	var out []Rank
	for _, r := range byRank {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Rank) int { return a.Rank - b.Rank })
	return out, nil
}
