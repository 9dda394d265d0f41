// Package kernel holds the float32 arithmetic of training on one CPU thread:
// matrix products by a BLAS found at run time, and fused elementwise and
// row-wise kernels, in AVX2 assembly where the CPU has it.
//
// It promises:
//
//   - Every kernel has a plain Go reference, and assembly and reference give
//     the same bits (NaN payloads excepted). A reduction has one documented
//     order of summation, which both follow.
//   - Results do not depend on the alignment of a buffer or on earlier calls.
//   - Where torch's order of operations is known, it is followed: see [AdamFused].
//
// [Load] chooses BLAS and kernel level once per process, from what the machine
// has and from the environment:
//
//	REJOIN_BLAS    gonum | openblas | mkl | path of a library; a forced one
//	               that cannot be had is an error
//	REJOIN_KERNEL  generic | avx2; the same
//
// Different BLAS libraries sum in different orders, so results agree between
// them only to rounding error.
//
// Slices of different length, or a matrix that does not fit its slice, are
// programmer's errors and panic before anything is written. The package starts
// no goroutine, and allocates nothing that outlives a call except for pooled
// scratch memory.
package kernel
