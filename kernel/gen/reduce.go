package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// foldDoubles adds 8 float64 lanes, low to high in a and b, as foldLanes64 does,
// and returns the sum from the function.
func foldDoubles(a, b reg.VecVirtual) {
	VADDPD(b, a, a)
	high, low := XMM(), a.AsX()
	VEXTRACTF128(U8(1), a, high)
	VADDPD(high, low, low)
	VUNPCKHPD(low, low, high)
	VADDSD(high, low, low)
	VZEROUPPER() // before Store, which is not VEX-encoded
	Store(low, ReturnIndex(0))
	RET()
}

// foldFloats combines 8 float32 lanes pairwise as foldLanes32 does and returns
// the result from the function.
func foldFloats(a reg.VecVirtual, packed, single func(ops ...Op)) {
	high, low := XMM(), a.AsX()
	VEXTRACTF128(U8(1), a, high)
	packed(high, low, low)
	VMOVHLPS(low, low, high)
	packed(high, low, low)
	VMOVSHDUP(low, high)
	single(high, low, low)
	VZEROUPPER() // before Store, which is not VEX-encoded
	Store(low, ReturnIndex(0))
	RET()
}

// addDoubles widens the 8 elements of y and hands the two halves to accumulate.
func addDoubles(y reg.VecVirtual, accumulate func(half reg.VecVirtual, index int)) {
	low, high := YMM(), YMM()
	upper := XMM()
	VEXTRACTF128(U8(1), y, upper)
	VCVTPS2PD(y.AsX(), low)
	VCVTPS2PD(upper, high)
	accumulate(low, 0)
	accumulate(high, 1)
}

func zeroed() reg.VecVirtual {
	y := YMM()
	VXORPS(y, y, y)
	return y
}

func sumSquares() {
	n := function("sumSquaresAVX2", "x", "func(x []float32) float64", "is sumSquaresGeneric for whole vectors.")
	x := base("x")
	acc := [2]reg.VecVirtual{zeroed(), zeroed()}
	eachVector(n, func(i reg.GPVirtual) {
		addDoubles(load(at(x, i)), func(half reg.VecVirtual, index int) {
			VFMADD231PD(half, half, acc[index]) // the product is exact: fused or not is the same
		})
	})
	foldDoubles(acc[0], acc[1])
}

func sumSquaredDiff() {
	n := function("sumSquaredDiffAVX2", "x", "func(x, y []float32) float64", "is sumSquaredDiffGeneric for whole vectors.")
	x, y := base("x"), base("y")
	acc := [2]reg.VecVirtual{zeroed(), zeroed()}
	eachVector(n, func(i reg.GPVirtual) {
		d := load(at(x, i))
		VSUBPS(at(y, i), d, d)
		VMULPS(d, d, d)
		addDoubles(d, func(half reg.VecVirtual, index int) {
			VADDPD(half, acc[index], acc[index])
		})
	})
	foldDoubles(acc[0], acc[1])
}
