package kernel

import (
	"fmt"
	"math"
)

// checkLengths panics unless the slices of op are of equal length.
func checkLengths(op string, want int, got ...int) {
	for _, n := range got {
		if n != want {
			panic(fmt.Sprintf("kernel: %s of lengths %d and %d", op, want, n))
		}
	}
}

// ReLU writes max(x, 0) to dst; of a NaN or of -0 it keeps x. dst may be x.
func ReLU(dst, x []float32) {
	checkLengths("ReLU", len(dst), len(x))
	done := reluVectors(dst, x)
	reluGeneric(dst[done:], x[done:])
}

func reluGeneric(dst, x []float32) {
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		dst[i] = v
	}
}

// ReLUBackward writes to dx the gradient dy where the output y of ReLU is
// positive (or NaN), and 0 elsewhere. dx may be dy.
func ReLUBackward(dx, dy, y []float32) {
	checkLengths("ReLUBackward", len(dx), len(dy), len(y))
	done := reluBackwardVectors(dx, dy, y)
	reluBackwardGeneric(dx[done:], dy[done:], y[done:])
}

func reluBackwardGeneric(dx, dy, y []float32) {
	for i, v := range y {
		if v <= 0 {
			dx[i] = 0
		} else {
			dx[i] = dy[i]
		}
	}
}

// Add adds x to dst.
func Add(dst, x []float32) {
	checkLengths("Add", len(dst), len(x))
	done := addVectors(dst, x)
	addGeneric(dst[done:], x[done:])
}

func addGeneric(dst, x []float32) {
	for i, v := range x {
		dst[i] += v
	}
}

// AddScaled writes x + a·y to dst, with two roundings per element: a·y is
// rounded first. Every NaN becomes the same one, so that the outcome does not
// depend on which operand is x: of two NaN an addition returns either. dst may
// be x or y.
func AddScaled(dst, x, y []float32, a float32) {
	checkLengths("AddScaled", len(dst), len(x), len(y))
	done := addScaledVectors(dst, x, y, a)
	addScaledGeneric(dst[done:], x[done:], y[done:], a)
}

// nan32 is the NaN that arithmetic on x86 and Arm makes by default.
var nan32 = math.Float32frombits(0x7fc00000)

// The conversion keeps the compiler from fusing the two operations.
func addScaledGeneric(dst, x, y []float32, a float32) {
	for i, v := range x {
		s := v + float32(a*y[i])
		if s != s {
			s = nan32
		}
		dst[i] = s
	}
}

// Axpy adds a*x to dst, with one rounding per element: fma(a, x, dst), as
// torch's add_ with an alpha does.
func Axpy(dst []float32, a float32, x []float32) {
	checkLengths("Axpy", len(dst), len(x))
	done := axpyVectors(dst, a, x)
	axpyGeneric(dst[done:], a, x[done:])
}

func axpyGeneric(dst []float32, a float32, x []float32) {
	for i, v := range x {
		dst[i] = fma32(a, v, dst[i])
	}
}

// Scale multiplies x by a.
func Scale(x []float32, a float32) {
	done := scaleVectors(x, a)
	scaleGeneric(x[done:], a)
}

func scaleGeneric(x []float32, a float32) {
	for i := range x {
		x[i] *= a
	}
}

// FillRows writes row to each of the rows of dst, a len(dst)/len(row) × len(row)
// matrix: the bias, to which a matrix product is then added.
func FillRows(dst, row []float32) {
	if len(row) == 0 || len(dst)%len(row) != 0 {
		panic(fmt.Sprintf("kernel: FillRows of %d elements with rows of %d", len(dst), len(row)))
	}
	// Each copy doubles what is there: a narrow row costs no more than a wide one.
	for n := copy(dst, row); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}
