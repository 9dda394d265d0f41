package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"rejoin/model"
)

// What to do about an update whose loss or gradient is not finite: on_nan.
const (
	nanStop = "stop"  // all ranks stop before it, and nothing more is saved
	nanSkip = "skip"  // all ranks leave it out: neither optimizer nor schedule moves
	nanGoOn = "go-on" // go on as torch does
)

// NonFiniteError says that an update's loss or gradient is NaN or infinite.
type NonFiniteError struct {
	Step     int     // the update, from 1
	GradNorm float32 // of the averaged gradient
	Ranks    []int   // where it comes from; empty if every rank's own part is finite
	Causes   []string
	// Hopeless says that skipping cannot help: the parameters are not finite.
	Hopeless bool
	LastGood string // the last checkpoint before it; "" for none
}

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("step %d: %s. %s", e.Step, e.what(), e.next())
}

func (e *NonFiniteError) what() string {
	if len(e.Ranks) == 0 {
		return fmt.Sprintf("the gradient's norm is %v though every rank's gradient is finite: it overflows float32 when it is summed", e.GradNorm)
	}
	parts := make([]string, len(e.Ranks))
	for i, rank := range e.Ranks {
		parts[i] = fmt.Sprintf("rank %d: %s", rank, e.Causes[i])
	}
	return strings.Join(parts, "; ")
}

func (e *NonFiniteError) next() string {
	good := "there is no checkpoint yet"
	if e.LastGood != "" {
		good = "the last good checkpoint is " + e.LastGood
	}
	if e.Hopeless {
		return "All ranks stopped before this update and saved nothing of it; " + good + ". No update can be finite any more: go on from an earlier checkpoint"
	}
	return "All ranks stopped before this update and saved nothing of it; " + good +
		". Mend the data or lower the learning rate, or resume with --on-nan skip (leave such updates out) or --on-nan go-on (train on as torch does)"
}

func isFinite(v float32) bool { return v-v == 0 }

// backward computes one micro-batch's loss and adds its gradient. Unless the run
// goes on regardless, a loss that is not finite marks the gradient, so that the
// averaged norm tells every rank without another exchange: the gradient of an
// infinite loss can be finite.
func (r *run) backward(batch model.Batch, divisor float32) (float32, error) {
	loss, err := r.model.Loss(batch, divisor)
	if err != nil {
		return 0, err
	}
	if !isFinite(loss) && r.args.OnNaN != nanGoOn {
		r.model.FlatGrads()[0] = float32(math.NaN())
	}
	return loss, r.model.Backward()
}

// settleNonFinite decides, the same on all ranks, whether an update with this
// norm of the averaged gradient is applied. It costs an exchange only where the
// norm is not finite, which all ranks see alike.
func (r *run) settleNonFinite(ctx context.Context, group [][]int, norm float32) (apply bool, err error) {
	if isFinite(norm) {
		return true, nil
	}
	if r.args.OnNaN == nanGoOn {
		if !r.wentOn && r.group.Rank() == 0 {
			r.warnf("step %d: the gradient's norm is %v; the run goes on regardless (--on-nan go-on)", r.pos.Step+1, norm)
		}
		r.wentOn = true
		return true, nil
	}
	cause, err := r.diagnose(group)
	if err != nil {
		return false, err
	}
	all, err := r.group.AllGather(ctx, []byte(cause))
	if err != nil {
		return false, err
	}
	found := &NonFiniteError{Step: r.pos.Step + 1, GradNorm: norm, Hopeless: r.paramsNotFinite(), LastGood: r.lastSaved}
	for rank, text := range all {
		if len(text) > 0 {
			found.Ranks = append(found.Ranks, rank)
			found.Causes = append(found.Causes, string(text))
		}
	}
	if r.args.OnNaN == nanSkip && !found.Hopeless {
		if r.group.Rank() == 0 {
			r.warnf("step %d is skipped on all ranks: %s", found.Step, found.what())
		}
		return false, nil
	}
	speakers := found.Ranks
	if len(speakers) == 0 {
		speakers = []int{0}
	}
	return false, &RankError{Ranks: speakers, Cause: found, Mine: found}
}

// diagnose says what is not finite in this rank's own part of the update, which
// it computes again without the others; "" if nothing is. The averaged gradient
// is lost.
func (r *run) diagnose(group [][]int) (string, error) {
	for i, rows := range group {
		if len(rows) == 0 {
			continue
		}
		batch, err := r.batch(rows)
		if err != nil {
			return "", err
		}
		where := fmt.Sprintf("micro-batch %d of %d, rows %s", i+1, len(group), shortList(rows))
		r.model.ZeroGrad()
		_, err = r.model.ForwardBackward(batch, float32(len(group)))
		if loss := (*model.NonFiniteError)(nil); errors.As(err, &loss) {
			return fmt.Sprintf("%v (%s)", loss, where), nil
		}
		if err != nil {
			return "", err
		}
		for _, p := range r.params {
			for _, g := range p.Grad {
				if !isFinite(g) {
					return fmt.Sprintf("the gradient of %s is %v though the loss is finite (%s)", p.Name, g, where), nil
				}
			}
		}
	}
	return "", nil
}

func (r *run) paramsNotFinite() bool {
	for _, p := range r.params {
		for _, v := range p.Values {
			if !isFinite(v) {
				return true
			}
		}
	}
	return false
}

// shortList prints the first numbers of a list.
func shortList(rows []int) string {
	const most = 16
	if len(rows) <= most {
		return fmt.Sprint(rows)
	}
	return fmt.Sprintf("%v and %d more", rows[:most], len(rows)-most)
}
