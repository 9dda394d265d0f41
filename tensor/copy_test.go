package tensor

import (
	"slices"
	"testing"
)

func TestCopyFloat32OnAnyHost(t *testing.T) {
	keep := hostIsLittle
	defer func() { hostIsLittle = keep }()
	raw := []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}
	for _, little := range []bool{keep, false} {
		hostIsLittle = little
		got := make([]float32, 2)
		copyFloat32(got, raw)
		if !slices.Equal(got, []float32{1, -2}) {
			t.Errorf("host little-endian %v: %v", little, got)
		}
	}
	copyFloat32(nil, nil)
}
