package kernel

// vectors runs an assembly function over the whole vectors of n elements, in
// chunks, and returns how many elements that were: none without AVX2.
func vectors(n int, body func(from, to int)) (done int) {
	if !useAVX2 {
		return 0
	}
	n &^= 7
	eachChunk(n, body)
	return n
}

func reluVectors(dst, x []float32) int {
	return vectors(len(x), func(i, j int) { reluAVX2(dst[i:j], x[i:j]) })
}

func reluBackwardVectors(dx, dy, y []float32) int {
	return vectors(len(y), func(i, j int) { reluBackwardAVX2(dx[i:j], dy[i:j], y[i:j]) })
}

func addVectors(dst, x []float32) int {
	return vectors(len(x), func(i, j int) { addAVX2(dst[i:j], x[i:j]) })
}

func addScaledVectors(dst, x, y []float32, a float32) int {
	return vectors(len(x), func(i, j int) { addScaledAVX2(dst[i:j], x[i:j], y[i:j], a, nan32) })
}

func axpyVectors(dst []float32, a float32, x []float32) int {
	return vectors(len(x), func(i, j int) { axpyAVX2(dst[i:j], a, x[i:j]) })
}

func scaleVectors(x []float32, a float32) int {
	return vectors(len(x), func(i, j int) { scaleAVX2(x[i:j], a) })
}

func mseGradVectors(dx, x, y []float32, norm, g float32) int {
	return vectors(len(x), func(i, j int) { mseGradAVX2(dx[i:j], x[i:j], y[i:j], norm, g) })
}

// sumSquaresVectors is for whole vectors, at most a chunk of them, as is the next.
func sumSquaresVectors(x []float32) float64 {
	if useAVX2 {
		return sumSquaresAVX2(x)
	}
	return sumSquaresGeneric(x)
}

func sumSquaredDiffVectors(x, y []float32) float64 {
	if useAVX2 {
		return sumSquaredDiffAVX2(x, y)
	}
	return sumSquaredDiffGeneric(x, y)
}

// A row of the next three is one chunk: a vocabulary's width, not a tensor's size.

func rowMax(x []float32) float32 {
	if useAVX2 {
		return rowMaxAVX2(x)
	}
	return rowMaxGeneric(x)
}

func sumExp(x []float32, shift float32) float32 {
	if useAVX2 {
		return sumExpAVX2(x, shift)
	}
	return sumExpGeneric(x, shift)
}

func softmaxGrad(dx, x []float32, shift, logSum, g float32) {
	if useAVX2 {
		softmaxGradAVX2(dx, x, shift, logSum, g)
		return
	}
	softmaxGradGeneric(dx, x, shift, logSum, g)
}

func adamBody(p, g, m, v []float32, c *AdamCoeffs) {
	if !useAVX2 {
		adamBodyGeneric(p, g, m, v, c)
		return
	}
	args := c.vectorArgs()
	eachChunk(len(p), func(i, j int) {
		if c.L2 != 0 {
			adamL2AVX2(p[i:j], g[i:j], m[i:j], v[i:j], &args)
		} else {
			adamAVX2(p[i:j], g[i:j], m[i:j], v[i:j], &args)
		}
	})
}
