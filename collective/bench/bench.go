package bench

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"rejoin/collective"
)

// Sizes are the buffers that are reduced, in bytes.
var Sizes = []int{4, 4 << 10, 64 << 10, 256 << 10, 4 << 20, 64 << 20}

// warmUp is how many calls of each size are not timed; the first is checked.
const warmUp = 3

// calls is how often a size is timed in a round.
func calls(bytes int) int { return min(max((256<<20)/bytes, 10), 200) }

// Gloo is a Python program that does for torch.distributed what Rank does. It
// wants torchrun's environment and, as its argument, Plan.
//
//go:embed gloo.py
var Gloo string

// step is one line of a plan: how often to time a buffer of how many bytes.
type step struct {
	Bytes  int `json:"bytes"`
	Calls  int `json:"calls"`
	WarmUp int `json:"warm_up"`
}

func plan() []step {
	var p []step
	for _, n := range Sizes {
		p = append(p, step{n, calls(n), warmUp})
	}
	return p
}

// Plan is what to measure, for Gloo.
func Plan() (string, error) {
	b, err := json.Marshal(plan())
	return string(b), err
}

// timings is what rank 0 prints for one size: a line of JSON.
type timings struct {
	Bytes   int       `json:"bytes"`
	Seconds []float64 `json:"seconds"`         // of each call
	Torch   string    `json:"torch,omitempty"` // its version
}

// Rank takes part in one round. Rank 0 writes the times to out.
func Rank(ctx context.Context, g *collective.Group, out io.Writer) error {
	for _, s := range plan() {
		t := timings{Bytes: s.Bytes}
		buf := make([]float32, s.Bytes/4)
		if err := check(ctx, g, buf); err != nil {
			return err
		}
		for i := 1; i < s.WarmUp+s.Calls; i++ {
			begun := time.Now()
			if err := g.AllReduceSum(ctx, buf); err != nil {
				return err
			}
			if i >= s.WarmUp {
				t.Seconds = append(t.Seconds, time.Since(begun).Seconds())
			}
		}
		if g.Rank() == 0 {
			if err := json.NewEncoder(out).Encode(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// check reduces the ranks' numbers from 1, and leaves zeros in buf.
func check(ctx context.Context, g *collective.Group, buf []float32) error {
	for i := range buf {
		buf[i] = float32(g.Rank() + 1)
	}
	if err := g.AllReduceSum(ctx, buf); err != nil {
		return err
	}
	want := float32(g.Size() * (g.Size() + 1) / 2)
	for i, v := range buf {
		if v != want {
			return fmt.Errorf("rank %d: element %d of %d is %g after the allreduce, expected %g", g.Rank(), i, len(buf), v, want)
		}
	}
	clear(buf)
	return nil
}
