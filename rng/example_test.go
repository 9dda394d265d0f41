package rng_test

import (
	"fmt"
	"testing"

	"rejoin/rng"
)

// The order in which a Trainer with seed 42 shows ten rows in its first epoch.
func ExampleGenerator_Perm() {
	fmt.Println(rng.New(42).Perm(10))
	// Output: [2 6 1 8 4 5 0 9 3 7]
}

// A stopped generator goes on where it was.
func ExampleFromState() {
	g := rng.New(7)
	g.Uint64()
	saved := g.State()
	fmt.Println(g.Uint32())

	g, err := rng.FromState(saved)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Uint32())
	// Output:
	// 3349725721
	// 3349725721
}

func BenchmarkPerm(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		rng.New(1).Perm(n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
}

func BenchmarkNormalFloat32(b *testing.B) {
	dst := make([]float32, 1<<16)
	g := rng.New(1)
	for b.Loop() {
		g.NormalFloat32(dst, 0, 0.02)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(dst)), "ns/value")
}

func BenchmarkUniformFloat32(b *testing.B) {
	dst := make([]float32, 1<<16)
	g := rng.New(1)
	for b.Loop() {
		g.UniformFloat32(dst, -0.1, 0.1)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(dst)), "ns/value")
}
