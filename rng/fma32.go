package rng

import "math"

// fma32 is x*y + z rounded once to float32; math.FMA would round twice, first to
// float64. The product of two float32 is exact in float64, and their sum, rounded
// there, may be rounded again unless it lies halfway between two float32: then
// what the first rounding lost decides.
func fma32(x, y, z float32) float32 {
	p := float64(float64(x) * float64(y))
	sum := p + float64(z)
	const low, half = 1<<29 - 1, 1 << 28 // the bits that float32 has not
	if b := math.Float64bits(sum); b&low == half || b<<1 < smallestNormal {
		return roundOdd(p, float64(z))
	}
	return float32(sum)
}

// smallestNormal is the smallest normal float32 as float64 bits, shifted left by
// one, so that the sign is gone. Below it, float32 has fewer bits.
const smallestNormal = (1023 - 126) << 53

// roundOdd is p + c rounded to odd in float64, after which rounding to float32 is
// right (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved
// algorithms using rounding to odd", IEEE Transactions on Computers 57, 2008).
func roundOdd(p, c float64) float32 {
	sum := p + c
	v := sum - p
	lost := (p - (sum - v)) + (c - v) // exactly (Knuth's TwoSum)
	bits := math.Float64bits(sum)
	if lost != 0 && bits&1 == 0 {
		bits = towards(bits, lost)
	}
	return float32(math.Float64frombits(bits))
}

// towards moves the bits of a non-zero float64 by one place in the direction of
// the sign of d.
func towards(bits uint64, d float64) uint64 {
	if negative := bits>>63 == 1; negative == (d < 0) {
		return bits + 1
	}
	return bits - 1
}
