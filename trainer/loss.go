package trainer

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
)

// lossMeter sums this rank's losses since the last log entry, in float32 as
// the Trainer's tr_loss does.
type lossMeter struct {
	sum        float32
	lastLogged int // global step of the last log entry
}

func (m *lossMeter) add(loss float32) { m.sum += loss }

// drain returns the mean over ranks of the sums since the last log entry,
// divided by the steps since, and starts anew at step.
func (m *lossMeter) drain(ctx context.Context, g Group, step int) (float64, error) {
	sums, err := gatherFloat32(ctx, g, m.sum)
	if err != nil {
		return 0, err
	}
	mean := float64(meanFloat32(sums)) / float64(step-m.lastLogged)
	m.sum, m.lastLogged = 0, step
	return mean, nil
}

// meanFloat32 sums in rank order and divides once, in float32.
func meanFloat32(values []float32) float32 {
	var sum float32
	for _, v := range values {
		sum += v
	}
	return sum / float32(len(values))
}

// gatherFloat32 returns every rank's value, by rank.
func gatherFloat32(ctx context.Context, g Group, mine float32) ([]float32, error) {
	all, err := g.AllGather(ctx, binary.LittleEndian.AppendUint32(nil, math.Float32bits(mine)))
	if err != nil {
		return nil, err
	}
	values := make([]float32, len(all))
	for rank, raw := range all {
		if len(raw) != 4 {
			return nil, fmt.Errorf("rank %d sent %d bytes for a loss, expected 4", rank, len(raw))
		}
		values[rank] = math.Float32frombits(binary.LittleEndian.Uint32(raw))
	}
	return values, nil
}
