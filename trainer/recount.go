package trainer

import (
	"errors"
	"fmt"
	"math"

	"rejoin/ckpt/hf"
	"rejoin/data"
)

// Offset says that an epoch is gone on with under another division than it was
// begun with: its first Rows rows, in the sampler's order, were trained on before
// update Step. The zero Offset is none.
type Offset struct {
	Epoch int `json:"epoch"`
	Rows  int `json:"rows"`
	Step  int `json:"step"`
}

// offsetKey is manifest.json's key for the offset, while its epoch lasts.
const offsetKey = "epoch_offset"

// in reports whether step is an update of the epoch that begins at the offset.
func (o Offset) in(p Plan, step int) bool {
	return o.Rows > 0 && step >= o.Step && step < o.Step+ceilDiv(p.offsetBatches, p.Accumulation)
}

// encode is the offset as manifest.json holds it.
func (o Offset) encode() map[string]any {
	return map[string]any{"epoch": int64(o.Epoch), "rows": int64(o.Rows), "step": int64(o.Step)}
}

// decodeOffset reads the manifest's offset; there mostly is none.
func decodeOffset(m *hf.Manifest) (o Offset, err error) {
	value, there := m.Extra[offsetKey]
	if !there {
		return o, nil
	}
	fields, _ := value.(map[string]any)
	for key, to := range map[string]*int{"epoch": &o.Epoch, "rows": &o.Rows, "step": &o.Step} {
		n, ok := fields[key].(int64)
		if !ok || n < 0 || n > math.MaxInt32 {
			return Offset{}, errors.New(`key "epoch_offset": expected epoch, rows and step`)
		}
		*to = int(n)
	}
	return o, nil
}

// Recount is a run's progress in the updates of another division: progress is
// kept in samples, so the same rows are left, and the schedule is at the same
// share of its way.
type Recount struct {
	Offset
	Step     int // updates done, as the new division counts them
	MaxSteps int // of the whole run; 0 where epochs say it
}

// recount counts step's progress under p anew under q, of the same rows. consumed
// are the epoch's rows that are done, and left q's micro-batches for the rest.
func recount(p, q Plan, was, now Division, at Position, consumed, left int, fixedSteps bool) Recount {
	r := Recount{Step: at.Epoch * q.UpdatesPerEpoch}
	switch {
	case left == 0:
		r.Step += q.UpdatesPerEpoch
	case consumed > 0:
		// What is left of the epoch ends where q's epoch ends, so that later
		// epochs count as q's own.
		r.Step += q.UpdatesPerEpoch - ceilDiv(left, q.Accumulation)
		r.Offset = Offset{Epoch: at.Epoch, Rows: consumed, Step: r.Step}
	}
	if fixedSteps {
		r.MaxSteps = r.Step + ceilDiv(max(0, p.MaxSteps-at.Step)*was.Rows(), now.Rows())
	}
	return r
}

// rowsDone is how many rows of its epoch are done at pos, padding not counted.
func (p Plan) rowsDone(pos Position, rows, perRound int) int {
	return min(pos.Batch*perRound+p.rowsBefore(pos.Epoch), rows)
}

// perRound is the number of rows that one micro-batch of every rank takes.
func perRound(args *Arguments, worldSize int) int {
	if args.SplitBatches && worldSize > 1 {
		return args.PerDeviceTrainBatchSize
	}
	return args.PerDeviceTrainBatchSize * worldSize
}

// layOut makes the plan of a division for one rank's sampler of rows rows.
func layOut(name string, args *Arguments, rows, worldSize int, offset Offset) (Plan, sampler, error) {
	s, err := newSampler(name, args, rows, worldSize, 0)
	if err != nil {
		return Plan{}, nil, err
	}
	p, err := NewPlan(args, s.BatchesPerEpoch())
	return p.from(offset, s), s, err
}

// divideAnew goes on under another division: as it is, where every update and
// every epoch has the same rows as before, or else with progress counted anew.
func (r *resolver) divideAnew(was, now Division, offset Offset) error {
	table, err := data.Open(r.job.Data)
	if err != nil {
		return err
	}
	defer func() { _ = table.Close() }() // it was only read from
	rows, args := table.Len(), &r.job.Arguments
	p, _, err := layOut(r.samplerWas(), &r.before, rows, was.WorldSize, offset)
	if err != nil {
		return fmt.Errorf("the checkpoint's run: %w", err)
	}
	q, s, err := layOut(r.job.Sampler, args, rows, now.WorldSize, Offset{})
	if err != nil {
		return err
	}
	if now.Rows() == was.Rows() && p.UpdatesPerEpoch == q.UpdatesPerEpoch && offset == (Offset{}) {
		r.warn("world size %d → %d: %v, before %v", was.WorldSize, now.WorldSize, now, was)
		return nil
	}
	at := p.PositionAt(r.opened.Step())
	consumed := p.rowsDone(at, rows, perRound(&r.before, was.WorldSize))
	left := s.BatchesFrom(consumed)
	if p.Epochs > at.Epoch && at.Batch == 0 && !p.Offset.in(p, at.Step) {
		consumed, left = 0, q.BatchesPerEpoch // at an epoch's start
	}
	fixed := args.MaxSteps > 0 && args.MaxSteps == r.before.MaxSteps
	count := recount(p, q, was, now, at, consumed, left, fixed)
	if fixed {
		args.MaxSteps = count.MaxSteps
	}
	if args.WarmupSteps >= 1 && args.WarmupSteps == r.before.WarmupSteps {
		args.WarmupSteps = math.Ceil(args.WarmupSteps * float64(was.Rows()) / float64(now.Rows()))
	}
	if q, err = NewPlan(args, q.BatchesPerEpoch); err != nil {
		return err
	}
	r.job.Recount, r.job.Offset = &count, count.Offset
	r.warn("progress is kept in samples: step %d of %d (%v) becomes step %d of %d (%v); epoch %d goes on after %d of its %d rows; "+
		"%s, and logging_steps and save_steps count the new updates",
		at.Step, p.MaxSteps, was, count.Step, q.MaxSteps, now, at.Epoch, consumed, rows, args.recountedScheduleMeans())
	return nil
}
