package trainer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// StrictError lists what would have been warnings, under --strict.
type StrictError struct{ Warnings []string }

func (e *StrictError) Error() string {
	return fmt.Sprintf("--strict: %s. Name a checkpoint without this, or resume without --strict", strings.Join(e.Warnings, "; "))
}

// settleWarnings brings the warnings that the ranks met while they rebuilt the
// state together. Rank 0 prints each once; under --strict they are one error
// instead, the same on all ranks.
func (r *run) settleWarnings(ctx context.Context) error {
	mine, err := json.Marshal(r.warnings)
	if err != nil {
		return err
	}
	r.warnings = nil
	all, err := r.group.AllGather(ctx, mine)
	if err != nil {
		return err
	}
	var ranks []int
	holders := map[string][]int{}
	var texts []string // in the order in which the ranks have them
	for rank, raw := range all {
		var list []string
		if err := json.Unmarshal(raw, &list); err != nil {
			return fmt.Errorf("the warnings that rank %d sent: %w", rank, err)
		}
		for _, text := range list {
			if holders[text] == nil {
				texts = append(texts, text)
			}
			holders[text] = append(holders[text], rank)
		}
		if len(list) > 0 {
			ranks = append(ranks, rank)
		}
	}
	for i, text := range texts {
		if held := holders[text]; len(held) < len(all) {
			texts[i] = fmt.Sprintf("rank %s: %s", joinInts(held), text)
		}
	}
	if r.job.Strict && len(texts) > 0 {
		strict := &StrictError{texts}
		return &RankError{Ranks: ranks, Cause: strict, Mine: strict}
	}
	if r.group.Rank() == 0 {
		for _, text := range texts {
			fmt.Fprintf(r.out.Warnings, "warning: %s\n", text)
		}
	}
	return nil
}

// joinWords is "a, b and c".
func joinWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

func joinInts(values []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Compact(values)), " ", ", "), "[]")
}

// strict turns the warnings of a resolved request into an error.
func (r *resolver) strict() error {
	if !r.request.Strict {
		return nil
	}
	var warnings []string
	for _, n := range r.notices {
		if n.Warning {
			warnings = append(warnings, n.Text)
		}
	}
	if warnings == nil {
		return nil
	}
	return &StrictError{warnings}
}
