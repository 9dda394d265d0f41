package launch

import (
	"io"
	"testing"
)

// BenchmarkRun measures what launching two workers costs that do nothing.
func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		r, err := Run(b.Context(), Config{Program: "/bin/true", NProc: 2})
		if err != nil || r.ExitCode() != 0 {
			b.Fatal(err, r)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N), "ms/launch")
}

// BenchmarkOutput measures how fast the output of two workers is carried.
func BenchmarkOutput(b *testing.B) {
	const bytes = 64 << 20
	for b.Loop() {
		r, err := Run(b.Context(), Config{
			Program: "/bin/sh", Args: []string{"-c", "yes '0123456789 0123456789 0123456789 0123456789 0123456789' | head -c 67108864"},
			NProc: 2, Stdout: io.Discard,
		})
		if err != nil || r.ExitCode() != 0 {
			b.Fatal(err, r)
		}
	}
	b.ReportMetric(2*bytes*float64(b.N)/b.Elapsed().Seconds()/1e6, "MB/s")
}
