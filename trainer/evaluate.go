package trainer

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"rejoin/data"
)

// evalLoss is the one metric of an evaluation, as log and state name it.
const evalLoss = "eval_loss"

// evaluation measures the loss on rows that are not trained on.
type evaluation struct {
	table     *data.Table
	buffers   batches
	rows      [][]int // this rank's batches, in the order of the file
	batchSize int     // rows that one batch counts for
	remainder int     // rows of the last round of batches over all ranks; 0 if it is full
}

// evaluates tells whether the run ever evaluates.
func (a *Arguments) evaluates() bool { return a.EvalStrategy != "no" || a.EvalOnStart }

// openEvaluation opens the evaluation data and lays out this rank's part of it:
// in file order, over the ranks as accelerate's BatchSamplerShard does.
func (r *run) openEvaluation() error {
	if !r.args.evaluates() {
		return nil
	}
	table, err := data.Open(r.job.EvalData)
	if err != nil {
		return fmt.Errorf("--eval-data: %w", err)
	}
	r.eval.table = table
	if want := r.job.EvalDataDigest; want != "" && table.Digest() != want {
		return &DataChangedError{What: "evaluation data", Flag: "--eval-data", Path: r.job.EvalData, Expected: want, Found: table.Digest()}
	}
	sampler := data.Sampler{
		Rows: table.Len(), BatchSize: r.args.PerDeviceEvalBatchSize, WorldSize: r.group.Size(), Rank: r.group.Rank(),
		DropLast: r.args.DataloaderDropLast, EvenBatches: r.args.EvenBatches || r.args.joins(), SplitBatches: r.args.SplitBatches,
		Sequential: true,
	}
	if err := sampler.Validate(); err != nil {
		return fmt.Errorf("evaluation data %s: %w", r.job.EvalData, err)
	}
	e := evaluation{table: table, rows: sampler.Epoch(0), batchSize: sampler.BatchSize}
	if !sampler.DropLast {
		round := sampler.BatchSize
		if !sampler.SplitBatches {
			round *= sampler.WorldSize
		}
		e.remainder = table.Len() % round
	}
	if e.buffers, err = newBatches(table, r.spec, sampler.BatchSize); err != nil {
		return fmt.Errorf("evaluation data %s: %w", r.job.EvalData, err)
	}
	r.eval = e
	return nil
}

// evaluate is the mean loss over the evaluation rows, as the Trainer's
// evaluation_loop takes it (transformers 5.24, accelerate's gather_for_metrics):
// each batch's mean loss counts once for every row of a full batch, over ranks
// and then batches, and what goes beyond the data is cut off; the mean is
// numpy's, in float32. Unlike the Trainer's, it leaves out no loss that is not
// finite, and it measures no times: these would differ in a resumed run.
func (r *run) evaluate(ctx context.Context) (float64, error) {
	r.generator.Uint64() // torch's DataLoader draws a base seed for each pass
	mine := make([]byte, 0, 4*len(r.eval.rows))
	for _, rows := range r.eval.rows {
		batch, err := r.eval.buffers.read(r.eval.table, r.spec, rows)
		if err != nil {
			return 0, err
		}
		loss, err := r.model.Evaluate(batch)
		if err != nil {
			return 0, err
		}
		mine = binary.LittleEndian.AppendUint32(mine, math.Float32bits(loss))
	}
	all, err := r.group.AllGather(ctx, mine)
	if err != nil {
		return 0, err
	}
	for rank, losses := range all {
		if len(losses) != len(mine) {
			return 0, fmt.Errorf("rank %d evaluated %d batches, rank %d %d: every rank must see the same files", rank, len(losses)/4, r.group.Rank(), len(mine)/4)
		}
	}
	losses := r.eval.perRow(all)
	return float64(pairwiseSum(losses) / float32(len(losses))), nil
}

// perRow spreads the ranks' losses, float32 little-endian by batch, over rows.
func (e *evaluation) perRow(all [][]byte) []float32 {
	var losses []float32
	end := len(losses)
	for i := range e.rows {
		end = len(losses)
		for _, raw := range all {
			loss := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
			for range e.batchSize {
				losses = append(losses, loss)
			}
		}
	}
	if e.remainder > 0 && end+e.remainder < len(losses) {
		losses = losses[:end+e.remainder]
	}
	return losses
}

// pairwiseSum is numpy's sum of contiguous float32 values, bit for bit
// (pairwise_sum in numpy/_core/src/umath/loops_utils.h.src).
func pairwiseSum(x []float32) float32 {
	const block = 128
	switch n := len(x); {
	case n < 8:
		var sum float32
		for _, v := range x {
			sum += v
		}
		return sum
	case n <= block:
		lanes := [8]float32(x)
		whole := n - n%8
		for i := 8; i < whole; i += 8 {
			for j, v := range x[i : i+8] {
				lanes[j] += v
			}
		}
		sum := ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))
		for _, v := range x[whole:] {
			sum += v
		}
		return sum
	default:
		half := n / 2
		half -= half % 8
		return pairwiseSum(x[:half]) + pairwiseSum(x[half:])
	}
}

// evaluateAndLog evaluates and appends the entry to the log.
func (r *run) evaluateAndLog(ctx context.Context) (float64, error) {
	loss, err := r.evaluate(ctx)
	if err != nil {
		return 0, fmt.Errorf("evaluation: %w", err)
	}
	r.state.AppendLog(map[string]any{"epoch": r.state.Get("epoch"), evalLoss: loss, "step": int64(r.pos.Step)})
	r.sayf("step %d/%d  %s %.6g", r.pos.Step, r.plan.MaxSteps, evalLoss, loss)
	if r.early != nil {
		best, hasBest := r.state.BestMetric()
		if r.early.observe(r.args, loss, best, hasBest) {
			r.control.stop = true
			r.sayf("early stopping: %s did not improve on %.6g in %d evaluations", evalLoss, best, r.early.counter)
		}
	}
	return loss, nil
}

// evaluateAndJudge evaluates, lets the schedule know, and tells whether the model
// is the best so far.
func (r *run) evaluateAndJudge(ctx context.Context) (isBest bool, err error) {
	loss, err := r.evaluateAndLog(ctx)
	if err != nil {
		return false, err
	}
	was := r.optimizer.LearningRate(0)
	r.rates.evaluated(loss)
	if is := r.optimizer.LearningRate(0); is != was {
		r.sayf("%s: learning rate %.6g → %.6g", r.args.LRSchedulerType, was, is)
	}
	return r.judge(loss), nil
}

// evaluateOnStart evaluates before the first update of a run. The Trainer does
// so again on every resume; here a resumed run goes on as if it had not stopped.
func (r *run) evaluateOnStart(ctx context.Context) error {
	if !r.args.EvalOnStart || r.pos.Step > 0 || r.job.Resuming() {
		return nil
	}
	_, err := r.evaluateAndLog(ctx)
	return err
}
