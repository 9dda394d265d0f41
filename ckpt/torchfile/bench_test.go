package torchfile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// moments is an optimizer's state of n parameters with size elements each.
func moments(n, size int) *pyobj.Dict {
	state := pyobj.NewDict()
	for i := range n {
		entry := pyobj.NewDict("step", tensor.FromFloat32([]float32{1}))
		for _, name := range []string{"exp_avg", "exp_avg_sq"} {
			entry.Set(name, tensor.FromFloat32(make([]float32, size), size))
		}
		state.Set(i, entry)
	}
	return pyobj.NewDict("state", state)
}

func benchmarkFile(b *testing.B, obj any) (path string, size int64) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "optimizer.pt")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	if err := Write(f, "optimizer", obj); err != nil {
		b.Fatal(err)
	}
	if size, err = f.Seek(0, io.SeekEnd); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return path, size
}

// Opening costs by the tensor, not by the byte.
func BenchmarkOpen(b *testing.B) {
	for _, c := range []struct{ n, size int }{{10, 1 << 20}, {1000, 1 << 10}} {
		b.Run(fmt.Sprintf("%dx%d", c.n, c.size), func(b *testing.B) {
			path, _ := benchmarkFile(b, moments(c.n, c.size))
			b.ReportAllocs()
			for b.Loop() {
				f, err := Open(path, Options{})
				if err != nil {
					b.Fatal(err)
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(3*c.n), "ns/tensor")
		})
	}
}

// Load opens a file and reads all elements into float32 buffers of its own.
func BenchmarkLoad(b *testing.B) {
	path, size := benchmarkFile(b, moments(10, 1<<20))
	buffer := tensor.AlignedFloat32(1 << 20)
	b.SetBytes(size)
	for b.Loop() {
		f, err := Open(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		root, _ := pyobj.AsDict(f.Object())
		v, _ := root.Get("state")
		state, _ := pyobj.AsDict(v)
		for _, e := range state.Entries() {
			entry, _ := pyobj.AsDict(e.Value)
			for _, name := range []string{"exp_avg", "exp_avg_sq"} {
				v, _ := entry.Get(name)
				x, _ := pyobj.AsTensor(v)
				if err := x.ReadFloat32(buffer); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	obj := moments(10, 1<<20)
	var whole bytes.Buffer
	if err := Write(&whole, "optimizer", obj); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "out")
	into := func(b *testing.B, write func(io.Writer) error) {
		b.Helper()
		b.SetBytes(int64(whole.Len()))
		for b.Loop() {
			f, err := os.Create(path)
			if err != nil {
				b.Fatal(err)
			}
			if err := write(f); err != nil {
				b.Fatal(err)
			}
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("checkpoint", func(b *testing.B) {
		into(b, func(w io.Writer) error { return Write(w, "optimizer", obj) })
	})
	b.Run("plain", func(b *testing.B) {
		into(b, func(w io.Writer) error { _, err := w.Write(whole.Bytes()); return err })
	})
}
