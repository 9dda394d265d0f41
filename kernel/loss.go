package kernel

// MSEGrad writes to dx the gradient of the mean of (x-y)² with respect to x:
// (norm*(x-y))*g, where norm is float32(2/n) for a mean over n elements and g is
// the gradient that flows into the loss. The order is that of torch's
// mse_loss_backward.
func MSEGrad(dx, x, y []float32, norm, g float32) {
	checkLengths("MSEGrad", len(dx), len(x), len(y))
	done := mseGradVectors(dx, x, y, norm, g)
	mseGradGeneric(dx[done:], x[done:], y[done:], norm, g)
}

func mseGradGeneric(dx, x, y []float32, norm, g float32) {
	for i, v := range x {
		dx[i] = float32(norm*(v-y[i])) * g
	}
}

// RowMax is the largest element of x; a NaN is passed over, and it is -Inf of nothing.
func RowMax(x []float32) float32 { return rowMax(x) }

// SumExp is the sum of exp(x-shift), for x of which shift is the maximum, in 8 lanes.
func SumExp(x []float32, shift float32) float32 { return sumExp(x, shift) }

func sumExpGeneric(x []float32, shift float32) float32 {
	var lanes [8]float32
	for i, v := range x {
		lanes[i%8] += exp32(v - shift)
	}
	return foldLanes32(&lanes)
}

// SoftmaxGrad writes exp((x-shift)-logSum)*g to dx: the probabilities of a row
// times g, where logSum is the logarithm of [SumExp].
func SoftmaxGrad(dx, x []float32, shift, logSum, g float32) {
	checkLengths("SoftmaxGrad", len(dx), len(x))
	softmaxGrad(dx, x, shift, logSum, g)
}

func softmaxGradGeneric(dx, x []float32, shift, logSum, g float32) {
	for i, v := range x {
		dx[i] = exp32((v-shift)-logSum) * g
	}
}
