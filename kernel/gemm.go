package kernel

import "fmt"

// Gemm computes C = alpha*op(A)*op(B) + beta*C on row-major float32 matrices:
// op(A) is m×k, op(B) is k×n, C is m×n. A is stored m×k, or k×m with transA;
// B is stored k×n, or n×k with transB. lda, ldb and ldc are row strides in
// elements. With beta 0, C is not read and may hold anything.
//
// It panics if [Load] has failed and no one heeded it.
func Gemm(transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	checkMatrix("A", transA, m, k, a, lda)
	checkMatrix("B", transB, k, n, b, ldb)
	checkMatrix("C", false, m, n, c, ldc)
	if m == 0 || n == 0 {
		return
	}
	if k == 0 || alpha == 0 {
		scaleRows(m, n, beta, c, ldc)
		return
	}
	if err := Load(); err != nil {
		panic(err)
	}
	loaded.gemm(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}

type gemmFunc func(transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int)

func checkMatrix(name string, trans bool, rows, cols int, x []float32, ld int) {
	if trans {
		rows, cols = cols, rows
	}
	if rows < 0 || cols < 0 || ld < max(1, cols) {
		panic(fmt.Sprintf("kernel: Gemm: %s is %d×%d with row stride %d", name, rows, cols, ld))
	}
	if rows > 0 && cols > 0 && len(x) < (rows-1)*ld+cols {
		panic(fmt.Sprintf("kernel: Gemm: %s is %d×%d with row stride %d, its slice has only %d elements", name, rows, cols, ld, len(x)))
	}
}

// scaleRows is C = beta*C, with zeros for beta 0 whatever C holds.
func scaleRows(m, n int, beta float32, c []float32, ldc int) {
	for i := range m {
		row := c[i*ldc : i*ldc+n]
		if beta == 0 {
			clear(row)
			continue
		}
		for j := range row {
			row[j] *= beta
		}
	}
}
