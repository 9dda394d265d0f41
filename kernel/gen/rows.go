package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tailMask is a window of 8 lanes on eight ones and eight zeros: begun 8-r lanes
// in, its first r lanes are set.
func tailMask() Mem {
	table := GLOBL("tailMask", attr.RODATA|attr.NOPTR)
	for i := range 16 {
		word := uint32(0)
		if i < 8 {
			word = 0xffffffff
		}
		DATA(4*i, U32(word))
	}
	return table
}

var tail Mem

// eachMasked runs whole for each 8 elements and masked, once, for the rest.
func eachMasked(n reg.GPVirtual, whole func(i reg.GPVirtual), masked func(i reg.GPVirtual, mask reg.VecVirtual)) {
	i, end := GP64(), GP64()
	MOVQ(n, end)
	ANDQ(I8(-8), end)
	XORQ(i, i)
	JMP(LabelRef("check"))
	Label("loop")
	whole(i)
	ADDQ(U8(8), i)
	Label("check")
	CMPQ(i, end)
	JLT(LabelRef("loop"))
	CMPQ(i, n)
	JEQ(LabelRef("done"))
	// The window begins at table + 4*(8 - (n-i)) bytes.
	if tail.Symbol.Name == "" {
		tail = tailMask()
	}
	start, table := GP64(), GP64()
	MOVQ(I32(8), start)
	SUBQ(n, start)
	ADDQ(i, start)
	LEAQ(tail, table)
	mask := YMM()
	VMOVUPS(at(table, start), mask)
	masked(i, mask)
	Label("done")
}

// shared constants in read-only data, by name.
var shared = map[string]Mem{}

// constant broadcasts a float32 from read-only data.
func constant(name string, f float32) reg.VecVirtual {
	m, ok := shared[name]
	if !ok {
		m = ConstData(name, U32(math.Float32bits(f)))
		shared[name] = m
	}
	y := YMM()
	VBROADCASTSS(m, y)
	return y
}

func rowMax() {
	n := function("rowMaxAVX2", "x", "func(x []float32) float32", "is rowMaxGeneric, for any length.")
	x := base("x")
	acc, lowest := YMM(), constant("minusInf", float32(math.Inf(-1)))
	VMOVAPS(lowest, acc)
	eachMasked(n, func(i reg.GPVirtual) {
		VMAXPS(acc, load(at(x, i)), acc) // of a NaN it takes acc
	}, func(i reg.GPVirtual, mask reg.VecVirtual) {
		y := YMM()
		VMASKMOVPS(at(x, i), mask, y)
		VBLENDVPS(mask, y, lowest, y)
		VMAXPS(acc, y, acc)
	})
	foldFloats(acc, VMAXPS, VMAXSS)
}

// The constants of exp32 in exp.go, where they are explained.
const (
	expFlush   = -87.33654
	log2e      = 1.44269504088896341
	roundMagic = 12582912
	ln2Hi      = 0.693359375
	ln2Lo      = -2.12194440e-4
)

var expPoly = [...]float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}

// exp replaces the lanes of x, which it spoils, by their exponentials, as exp32 does.
func exp(x reg.VecVirtual) reg.VecVirtual {
	z, n, p, keep, square := YMM(), YMM(), YMM(), YMM(), YMM()
	const notLessThan = 5 // true for NaN
	VCMPPS(U8(notLessThan), constant("expFlush", expFlush), x, keep)
	magic, one := constant("roundMagic", roundMagic), constant("one", 1)
	VMOVAPS(magic, z)
	VFMADD231PS(constant("log2e", log2e), x, z)
	VSUBPS(magic, z, n)
	VFMADD231PS(constant("minusLn2Hi", -ln2Hi), n, x)
	VFMADD231PS(constant("minusLn2Lo", -ln2Lo), n, x)
	VMOVAPS(constant("expPoly0", expPoly[0]), p)
	for i, a := range expPoly[1:] {
		VFMADD213PS(constant("expPoly"+string(rune('1'+i)), a), x, p)
	}
	VMULPS(x, x, square)
	VFMADD213PS(x, square, p)
	VADDPS(one, p, p)
	VPSLLD(U8(23), z, z)
	VPADDD(one, z, z) // the exponent of 1 is the bias
	VMULPS(z, p, p)
	VANDPS(keep, p, p)
	return p
}

func sumExp() {
	n := function("sumExpAVX2", "x", "func(x []float32, shift float32) float32", "is sumExpGeneric, for any length.")
	x, shift := base("x"), broadcast("shift")
	acc := zeroed()
	eachMasked(n, func(i reg.GPVirtual) {
		y := load(at(x, i))
		VSUBPS(shift, y, y)
		VADDPS(exp(y), acc, acc)
	}, func(i reg.GPVirtual, mask reg.VecVirtual) {
		y := YMM()
		VMASKMOVPS(at(x, i), mask, y)
		VSUBPS(shift, y, y)
		e := exp(y)
		VANDPS(mask, e, e)
		VADDPS(e, acc, acc)
	})
	foldFloats(acc, VADDPS, VADDSS)
}

func softmaxGrad() {
	n := function("softmaxGradAVX2", "dx", "func(dx, x []float32, shift, logSum, grad float32)", "is softmaxGradGeneric, for any length.")
	dx, x := base("dx"), base("x")
	shift, logSum, grad := broadcast("shift"), broadcast("logSum"), broadcast("grad")
	scaled := func(y reg.VecVirtual) reg.VecVirtual {
		VSUBPS(shift, y, y)
		VSUBPS(logSum, y, y)
		e := exp(y)
		VMULPS(grad, e, e)
		return e
	}
	eachMasked(n, func(i reg.GPVirtual) {
		VMOVUPS(scaled(load(at(x, i))), at(dx, i))
	}, func(i reg.GPVirtual, mask reg.VecVirtual) {
		y := YMM()
		VMASKMOVPS(at(x, i), mask, y)
		VMASKMOVPS(scaled(y), mask, at(dx, i))
	})
	finish()
}
