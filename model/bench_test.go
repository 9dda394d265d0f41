package model

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"rejoin/kernel"
	"rejoin/tensor"
)

var benchmarks = []struct {
	name, layers string
	loss         Loss
	rows         int
}{
	{"16x10-64-1", "[{linear: [10, 64], name: a}, relu, {linear: [64, 1], name: b}]", MSE, 16},
	{"64x512-256-10", "[{linear: [512, 256], name: a}, relu, {linear: [256, 10], name: b}]", CrossEntropy, 64},
	{"256x1024-1024-10", "[{linear: [1024, 1024], name: a}, relu, {linear: [1024, 10], name: b}]", CrossEntropy, 256},
}

// BenchmarkStep is a whole training step of one process: gradients zeroed,
// forward, backward, Adam. scripts/torch_step.py times the same in torch.
func BenchmarkStep(b *testing.B) {
	for _, bm := range benchmarks {
		b.Run(bm.name, func(b *testing.B) {
			m := newModel(b, fmt.Sprintf("layers: %s\nloss: %s\ninput: x\ntarget: y\n", bm.layers, bm.loss), bm.rows)
			r := rand.New(rand.NewPCG(1, 2))
			for _, p := range m.Params() {
				for i := range p.Values {
					p.Values[i] = float32(r.NormFloat64()) / 30
				}
			}
			batch := Batch{Rows: bm.rows, Input: make([]float32, bm.rows*m.Spec().InputSize())}
			for i := range batch.Input {
				batch.Input[i] = float32(r.NormFloat64())
			}
			if bm.loss == CrossEntropy {
				batch.Class = make([]int64, bm.rows)
			} else {
				batch.Target = make([]float32, bm.rows*m.Spec().OutputSize())
			}
			exp, sq := tensor.AlignedFloat32(len(m.FlatValues())), tensor.AlignedFloat32(len(m.FlatValues()))
			c := &kernel.AdamCoeffs{DecayFactor: 0.99999, OneMinusBeta1: 0.1, Beta2: 0.999, OneMinusBeta2: 0.001, SqrtBC2: 0.5, Eps: 1e-8, NegStepSize: -1e-6}
			b.ReportAllocs()
			for b.Loop() {
				m.ZeroGrad()
				if _, err := m.ForwardBackward(batch, 1); err != nil {
					b.Fatal(err)
				}
				at := 0
				for _, p := range m.Params() {
					n := len(p.Values)
					kernel.AdamFused(p.Values, p.Grad, exp[at:at+n], sq[at:at+n], c)
					at += (n + 15) / 16 * 16
				}
			}
			b.ReportMetric(flops(m.Spec(), bm.rows)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// flops counts the matrix products of forward and backward; the first layer has
// no input gradient.
func flops(s *Spec, rows int) float64 {
	total, passes := 0.0, 2.0
	for _, l := range s.Layers() {
		if l.Kind == Linear {
			total += passes * 2 * float64(rows) * float64(l.In) * float64(l.Out)
			passes = 3
		}
	}
	return total
}
