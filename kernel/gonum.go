package kernel

import (
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

var transposed = sync.Pool{New: func() any { return new([]float32) }}

// gonumGemm is Gemm on gonum. A transposed B is copied into its plain form
// first: gonum would use a dot product there, whose order of summation depends
// on the alignment of each row. Its other paths add row by row, elementwise,
// each element of C in the order of k. (gonum works on large matrices in
// several goroutines, each with blocks of C of its own.)
func gonumGemm(transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	if transB {
		buf := transposed.Get().(*[]float32)
		defer transposed.Put(buf)
		if cap(*buf) < n*k {
			*buf = make([]float32, n*k)
		}
		plain := (*buf)[:n*k]
		transpose(plain, b, n, k, ldb)
		b, ldb = plain, n
	}
	tA := blas.NoTrans
	if transA {
		tA = blas.Trans
	}
	gonum.Implementation{}.Sgemm(tA, blas.NoTrans, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}

// transpose writes the rows×cols matrix src, of row stride ld, into dst as cols×rows.
func transpose(dst, src []float32, rows, cols, ld int) {
	const tile = 16 // a cache line of float32, so that both sides stay in cache
	for i0 := 0; i0 < rows; i0 += tile {
		for j0 := 0; j0 < cols; j0 += tile {
			for i := i0; i < min(i0+tile, rows); i++ {
				for j := j0; j < min(j0+tile, cols); j++ {
					dst[j*rows+i] = src[i*ld+j]
				}
			}
		}
	}
}
