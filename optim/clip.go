package optim

import (
	"math"

	"rejoin/kernel"
)

// GradNorm is the Euclidean norm of all gradients together, in float32: the
// norm of the parameters' norms, as torch.nn.utils.get_total_norm takes it.
// Parameters without a gradient do not count; the norm of none is 0.
func GradNorm(params []*Param) float32 {
	norms := make([]float32, 0, len(params))
	for _, p := range params {
		if p.Grad != nil {
			norms = append(norms, norm(p.Grad))
		}
	}
	return norm(norms)
}

// ClipGradNorm scales all gradients, in place, so that their norm is at most
// maxNorm, and returns the norm they had ([GradNorm]). The factor is
// min(1, maxNorm/(norm + 1e-6)) in float32, as in torch.nn.utils.clip_grad_norm_;
// with a norm that is not finite, it leaves NaN or zeros, as torch does.
//
// With maxNorm 0 or less nothing is scaled, which is what max_grad_norm 0 means
// to the Trainer; torch's function would leave zeros.
func ClipGradNorm(params []*Param, maxNorm float64) float32 {
	total := GradNorm(params)
	if maxNorm <= 0 {
		return total
	}
	// torch divides a number by a tensor by multiplying with its reciprocal.
	factor := float32(1 / float32(total+1e-6) * float32(maxNorm))
	if factor >= 1 {
		return total // a product with 1 changes nothing
	}
	for _, p := range params {
		kernel.Scale(p.Grad, factor)
	}
	return total
}

// norm is torch.linalg.vector_norm of order 2 on AVX2, bit for bit: the squares
// are summed in 8 lanes, the lanes in order, then the last elements, of which
// torch's compiler takes whole fours without and the rest with a fused
// multiply-add. The order is this on every machine.
func norm(x []float32) float32 {
	var lanes [8]float32
	body := len(x) - len(x)%len(lanes)
	for i := 0; i < body; i += len(lanes) {
		for j, v := range (*[8]float32)(x[i:]) {
			lanes[j] += float32(v * v)
		}
	}
	sum := lanes[0]
	for _, lane := range lanes[1:] {
		sum += lane
	}
	fours := len(x) - (len(x)-body)%4
	for _, v := range x[body:fours] {
		sum += float32(v * v)
	}
	for _, v := range x[fours:] {
		sum = addSquare(sum, v)
	}
	return float32(math.Sqrt(float64(sum)))
}

// addSquare is sum + v*v with one rounding, for sum ≥ 0 or NaN.
func addSquare(sum, v float32) float32 {
	s := twoSum(float64(sum), float64(v)*float64(v)) // the product is exact
	if s.lo == 0 || s.hi != s.hi || math.IsInf(s.hi, 0) {
		return float32(s.hi)
	}
	// Rounding to odd first makes the second rounding the only one.
	u := math.Float64bits(s.hi)
	switch {
	case u&1 == 1:
	case s.lo > 0:
		u++
	default:
		u--
	}
	return float32(math.Float64frombits(u))
}
