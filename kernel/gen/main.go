// Command gen writes kernel's AVX2 assembly and its Go declarations. It is a
// module of its own, so that nobody who imports kernel needs the generator:
//
//	go generate ./kernel
//
// Conventions of all functions: slices have equal lengths; a function for whole
// vectors takes a multiple of 8 elements and the caller does the rest in Go;
// a function that takes any length masks its tail. Operands stand in Go's order,
// destination last.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	adam("adamAVX2", false)
	adam("adamL2AVX2", true)
	relu()
	reluBackward()
	add()
	addScaled()
	axpy()
	scale()
	mseGrad()
	sumSquares()
	sumSquaredDiff()
	rowMax()
	sumExp()
	softmaxGrad()
	ConstraintExpr("amd64")
	Generate()
}

// function starts a function that has a slice parameter called first, whose
// length it returns.
func function(name, first, signature string, doc ...string) (n reg.GPVirtual) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(append([]string{name + " " + doc[0]}, doc[1:]...)...)
	n = GP64()
	Load(Param(first).Len(), n)
	return n
}

func base(name string) reg.GPVirtual {
	p := GP64()
	Load(Param(name).Base(), p)
	return p
}

func at(p, i reg.Register) Mem { return Mem{Base: p, Index: i, Scale: 4} }

// load returns 8 elements.
func load(m Mem) reg.VecVirtual {
	y := YMM()
	VMOVUPS(m, y)
	return y
}

// broadcast fills a register with the float32 parameter called name.
func broadcast(name string) reg.VecVirtual {
	param, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	y := YMM()
	VBROADCASTSS(param.Addr, y)
	return y
}

// eachVector runs body with an index that goes through 0, 8 … up to n, then returns.
func eachVector(n reg.GPVirtual, body func(i reg.GPVirtual)) {
	i := GP64()
	XORQ(i, i)
	JMP(LabelRef("check"))
	Label("loop")
	body(i)
	ADDQ(U8(8), i)
	Label("check")
	CMPQ(i, n)
	JLT(LabelRef("loop"))
}

func finish() {
	VZEROUPPER()
	RET()
}
