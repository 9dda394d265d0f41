package kernel

import (
	"math/bits"
	"sync"
)

// The reductions below sum in 8 lanes: element i goes to lane i mod 8, each lane
// adds in order, and the lanes are then added pairwise, 4 apart, 2 apart, 1 apart.

func foldLanes64(l *[8]float64) float64 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

func foldLanes32(l *[8]float32) float32 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

// SumSquares is the sum of the squares of x: exact products, added in float64
// in 8 lanes for each 65536 elements; the sums of these pieces add up in order.
func SumSquares(x []float32) float64 {
	sum := 0.0
	eachChunk(len(x), func(from, to int) {
		part := x[from:to]
		body := len(part) &^ 7
		sum += sumSquaresVectors(part[:body]) + sumSquaresGeneric(part[body:])
	})
	return sum
}

func sumSquaresGeneric(x []float32) float64 {
	var lanes [8]float64
	for i, v := range x {
		lanes[i%8] += float64(v) * float64(v)
	}
	return foldLanes64(&lanes)
}

// SumSquaredDiff is the sum of (x-y)², each rounded to float32 as torch's
// mse_loss does, added as [SumSquares] adds.
func SumSquaredDiff(x, y []float32) float64 {
	checkLengths("SumSquaredDiff", len(x), len(y))
	sum := 0.0
	eachChunk(len(x), func(from, to int) {
		a, b := x[from:to], y[from:to]
		body := len(a) &^ 7
		sum += sumSquaredDiffVectors(a[:body], b[:body]) + sumSquaredDiffGeneric(a[body:], b[body:])
	})
	return sum
}

func sumSquaredDiffGeneric(x, y []float32) float64 {
	var lanes [8]float64
	for i, v := range x {
		d := v - y[i]
		lanes[i%8] += float64(float32(d * d))
	}
	return foldLanes64(&lanes)
}

// columnSums holds the partial sums of AddColumnSums.
var columnSums = sync.Pool{New: func() any { return new([]float32) }}

// AddColumnSums adds to dst, of length n, the column sums of x, a len(x)/n × n
// matrix: the gradient of a bias. The sum of a column is made first and added
// to dst last.
//
// Rows are added in cascade, as torch sums over the outer dimension
// (aten/src/ATen/native/cpu/SumKernel.cpp, multi_row_sum): runs of 16 rows, or
// more beyond 2**19 rows, then sums of runs, on four levels, which keeps the
// rounding error small.
func AddColumnSums(dst, x []float32) {
	cols := len(dst)
	if cols == 0 {
		return
	}
	checkLengths("AddColumnSums", 0, len(x)%cols)
	rows := len(x) / cols
	buf := columnSums.Get().(*[]float32)
	defer columnSums.Put(buf)
	const levels = 4
	if cap(*buf) < levels*cols {
		*buf = make([]float32, levels*cols)
	}
	acc := (*buf)[:levels*cols]
	clear(acc)
	level := func(j int) []float32 { return acc[j*cols : (j+1)*cols] }
	power := max(4, bits.Len(uint(max(rows-1, 0)))/levels)
	for i := range rows {
		Add(level(0), x[i*cols:(i+1)*cols])
		for j := 1; j < levels && (i+1)&(1<<(j*power)-1) == 0; j++ {
			Add(level(j), level(j-1))
			clear(level(j - 1))
		}
	}
	for j := 1; j < levels; j++ {
		Add(level(0), level(j))
	}
	Add(dst, level(0))
}
