package trainer

import (
	"fmt"
	"math"
)

// Plan is how a run divides its work: micro-batches into updates, updates into
// epochs. Its numbers are the Trainer's (set_initial_training_values,
// transformers 5.12).
type Plan struct {
	BatchesPerEpoch int // micro-batches of each rank in one epoch
	Accumulation    int // micro-batches of an update; the epoch's last may have fewer
	UpdatesPerEpoch int
	Epochs          int
	MaxSteps        int // updates of the whole run
	WarmupSteps     int
	LoggingSteps    int
	SaveSteps       int
	EvalSteps       int // 0 if the arguments have none

	Offset        Offset // where an epoch was gone on with under this division
	offsetBatches int    // micro-batches of each rank in the rest of that epoch
}

// from is the plan of a run that goes on at an offset.
func (p Plan) from(o Offset, s interface{ BatchesFrom(consumedRows int) int }) Plan {
	p.Offset = o
	if o.Rows > 0 {
		p.offsetBatches = s.BatchesFrom(o.Rows)
	}
	return p
}

// rowsBefore are the rows of an epoch that were trained on under another division.
func (p Plan) rowsBefore(epoch int) int {
	if epoch == p.Offset.Epoch {
		return p.Offset.Rows
	}
	return 0
}

// batchesIn is the number of micro-batches of each rank that an epoch has here.
func (p Plan) batchesIn(epoch int) int {
	if p.rowsBefore(epoch) > 0 {
		return p.offsetBatches
	}
	return p.BatchesPerEpoch
}

// NewPlan divides batchesPerEpoch micro-batches per rank as args say.
func NewPlan(args *Arguments, batchesPerEpoch int) (Plan, error) {
	if batchesPerEpoch < 1 {
		return Plan{}, fmt.Errorf("an epoch has no batch: the data has fewer rows than one batch of %d rows on every rank", args.PerDeviceTrainBatchSize)
	}
	p := Plan{BatchesPerEpoch: batchesPerEpoch, Accumulation: args.GradientAccumulationSteps}
	p.UpdatesPerEpoch = max(1, ceilDiv(batchesPerEpoch, p.Accumulation))
	if args.MaxSteps > 0 {
		p.MaxSteps = args.MaxSteps
		p.Epochs = ceilDiv(args.MaxSteps, p.UpdatesPerEpoch)
	} else {
		p.Epochs = int(math.Ceil(args.NumTrainEpochs))
		p.MaxSteps = int(math.Ceil(args.NumTrainEpochs * float64(p.UpdatesPerEpoch)))
	}
	p.WarmupSteps = absoluteSteps(args.WarmupSteps, p.MaxSteps)
	p.LoggingSteps = absoluteSteps(args.LoggingSteps, p.MaxSteps)
	p.SaveSteps = absoluteSteps(args.SaveSteps, p.MaxSteps)
	if args.EvalSteps != nil {
		p.EvalSteps = absoluteSteps(*args.EvalSteps, p.MaxSteps)
	}
	return p, nil
}

// absoluteSteps reads a number of steps that may be a fraction of the run.
func absoluteSteps(steps float64, maxSteps int) int {
	if steps >= 1 {
		return int(steps)
	}
	return int(math.Ceil(float64(maxSteps) * steps))
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// Position is how far a run has come. It says which micro-batch comes next.
type Position struct {
	Step  int // updates done in the whole run: global_step
	Epoch int // the epoch that the next micro-batch belongs to, from 0
	Batch int // micro-batches of that epoch already done, on each rank
}

// PositionAt is the position after step updates.
func (p Plan) PositionAt(step int) Position {
	if p.Offset.in(p, step) {
		return Position{Step: step, Epoch: p.Offset.Epoch, Batch: (step - p.Offset.Step) * p.Accumulation}
	}
	return Position{
		Step:  step,
		Epoch: step / p.UpdatesPerEpoch,
		Batch: step % p.UpdatesPerEpoch * p.Accumulation,
	}
}

// GroupSize is how many micro-batches the update that starts at pos has: the
// epoch's last update takes what is left, and is divided by that number.
func (p Plan) GroupSize(pos Position) int {
	return min(p.Accumulation, p.batchesIn(pos.Epoch)-pos.Batch)
}

// Advance is the position after the update that starts at pos, and the epoch
// count to log for it: e + done/B, whole at an epoch's end.
func (p Plan) Advance(pos Position) (next Position, epoch float64) {
	next = Position{Step: pos.Step + 1, Epoch: pos.Epoch, Batch: pos.Batch + p.GroupSize(pos)}
	batches := p.batchesIn(pos.Epoch)
	epoch = float64(pos.Epoch) + float64(p.BatchesPerEpoch-batches+next.Batch)/float64(p.BatchesPerEpoch)
	if next.Batch >= batches {
		next.Epoch, next.Batch = next.Epoch+1, 0
	}
	return next, epoch
}
