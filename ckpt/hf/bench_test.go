package hf

import (
	"path/filepath"
	"strconv"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// benchContents is sampleContents with n parameters and their moments: 12n bytes.
func benchContents(n int) Contents {
	c := sampleContents(4, 1)
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i%251) / 251
	}
	c.Weights = tensor.NewStateDict()
	c.Weights.Set("w", tensor.FromFloat32(values, n))
	c.Optimizer = pyobj.NewDict("state", pyobj.NewDict(0, pyobj.NewDict(
		"step", tensor.FromFloat32([]float32{1}),
		"exp_avg", tensor.FromFloat32(values, n),
		"exp_avg_sq", tensor.FromFloat32(values, n),
	)), "param_groups", &pyobj.List{})
	return c
}

func BenchmarkSave(b *testing.B) {
	for _, n := range []int{1000, 1 << 20} {
		b.Run(strconv.Itoa(n)+" parameters", func(b *testing.B) {
			c := benchContents(n)
			dir := b.TempDir()
			for b.Loop() {
				w, err := Begin(dir, 4)
				if err != nil {
					b.Fatal(err)
				}
				if err := w.Write(b.Context(), c); err != nil {
					b.Fatal(err)
				}
				w.target = filepath.Join(dir, filepath.Base(w.temporary)[1:]) // a name of its own
				if _, err := w.Commit(b.Context(), false); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(12*n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "MB/s")
		})
	}
}

func BenchmarkOpenAndDigest(b *testing.B) {
	for b.Loop() {
		c, err := Open("testdata/regression-w2/checkpoint-2", Options{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Digest(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "µs/open")
}
