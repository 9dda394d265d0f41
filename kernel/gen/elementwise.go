package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// adam is adamElement of adam.go for whole vectors; see there for the formulas.
// l2 adds Adam's weight decay to the gradient.
func adam(name string, l2 bool) {
	n := function(name, "p", "func(p, g, m, v []float32, c *[10]float32)", "is adamBodyGeneric for whole vectors.")
	p, g, m, v := base("p"), base("g"), base("m"), base("v")
	c := GP64()
	Load(Param("c"), c)
	field := func(index int) Op {
		y := YMM()
		VBROADCASTSS(Mem{Base: c, Disp: 4 * index}, y)
		return y
	}
	sign, decay := field(0), field(1)
	coeff, useM := field(3), field(4)
	beta2, oneMinusBeta2 := field(5), field(6)
	sqrtBC2, eps, negStep := field(7), field(8), field(9)
	eachVector(n, func(i reg.GPVirtual) {
		P, G, M, V := load(at(p, i)), load(at(g, i)), load(at(m, i)), load(at(v, i))
		VXORPS(sign, G, G)
		VMULPS(decay, P, P)
		if l2 {
			wd := YMM()
			VBROADCASTSS(Mem{Base: c, Disp: 4 * 2}, wd)
			VFMADD231PS(wd, P, G)
		}
		D := YMM()
		VSUBPS(M, G, D)          // g - m
		VBLENDVPS(useM, M, G, M) // m, or g for a large weight
		VFMADD231PS(D, coeff, M) // the new m
		VMOVUPS(M, at(m, i))
		VMULPS(beta2, V, V)
		VMULPS(oneMinusBeta2, G, D)
		VFMADD231PS(G, D, V) // the new v
		VMOVUPS(V, at(v, i))
		VSQRTPS(V, V)
		VDIVPS(sqrtBC2, V, V)
		VADDPS(eps, V, V)
		VMULPS(negStep, M, M)
		VDIVPS(V, M, M)
		VADDPS(M, P, P)
		VMOVUPS(P, at(p, i))
	})
	finish()
}

func relu() {
	n := function("reluAVX2", "dst", "func(dst, x []float32)", "is reluGeneric for whole vectors.")
	dst, x := base("dst"), base("x")
	zero := YMM()
	VXORPS(zero, zero, zero)
	eachVector(n, func(i reg.GPVirtual) {
		y := YMM()
		VMAXPS(at(x, i), zero, y) // of a NaN or two zeros it takes x
		VMOVUPS(y, at(dst, i))
	})
	finish()
}

func reluBackward() {
	n := function("reluBackwardAVX2", "dx", "func(dx, dy, y []float32)", "is reluBackwardGeneric for whole vectors.")
	dx, dy, y := base("dx"), base("dy"), base("y")
	zero := YMM()
	VXORPS(zero, zero, zero)
	eachVector(n, func(i reg.GPVirtual) {
		Y := load(at(y, i))
		mask := YMM()
		const notLessOrEqual = 6 // true for NaN
		VCMPPS(U8(notLessOrEqual), zero, Y, mask)
		VANDPS(at(dy, i), mask, mask)
		VMOVUPS(mask, at(dx, i))
	})
	finish()
}

func add() {
	n := function("addAVX2", "dst", "func(dst, x []float32)", "is addGeneric for whole vectors.")
	dst, x := base("dst"), base("x")
	eachVector(n, func(i reg.GPVirtual) {
		y := load(at(dst, i))
		VADDPS(at(x, i), y, y)
		VMOVUPS(y, at(dst, i))
	})
	finish()
}

func addScaled() {
	n := function("addScaledAVX2", "dst", "func(dst, x, y []float32, a, nan float32)", "is addScaledGeneric for whole vectors; nan is the NaN to write.")
	dst, x, y, a, nan := base("dst"), base("x"), base("y"), broadcast("a"), broadcast("nan")
	eachVector(n, func(i reg.GPVirtual) {
		s, unordered := load(at(y, i)), YMM()
		VMULPS(a, s, s)
		VADDPS(at(x, i), s, s)
		const isNaN = 3 // a value and itself are unordered
		VCMPPS(U8(isNaN), s, s, unordered)
		VBLENDVPS(unordered, nan, s, s)
		VMOVUPS(s, at(dst, i))
	})
	finish()
}

func axpy() {
	n := function("axpyAVX2", "dst", "func(dst []float32, a float32, x []float32)", "is axpyGeneric for whole vectors.")
	dst, x, a := base("dst"), base("x"), broadcast("a")
	eachVector(n, func(i reg.GPVirtual) {
		y := load(at(dst, i))
		VFMADD231PS(at(x, i), a, y)
		VMOVUPS(y, at(dst, i))
	})
	finish()
}

func scale() {
	n := function("scaleAVX2", "x", "func(x []float32, a float32)", "is scaleGeneric for whole vectors.")
	x, a := base("x"), broadcast("a")
	eachVector(n, func(i reg.GPVirtual) {
		y := YMM()
		VMULPS(at(x, i), a, y)
		VMOVUPS(y, at(x, i))
	})
	finish()
}

func mseGrad() {
	n := function("mseGradAVX2", "dx", "func(dx, x, y []float32, norm, grad float32)", "is mseGradGeneric for whole vectors.")
	dx, x, y := base("dx"), base("x"), base("y")
	norm, grad := broadcast("norm"), broadcast("grad")
	eachVector(n, func(i reg.GPVirtual) {
		d := load(at(x, i))
		VSUBPS(at(y, i), d, d)
		VMULPS(norm, d, d)
		VMULPS(grad, d, d)
		VMOVUPS(d, at(dx, i))
	})
	finish()
}
