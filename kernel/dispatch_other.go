//go:build !amd64

package kernel

// Where there is no assembly, no element is done by it, and the caller's plain
// Go does all of them.

func reluVectors(_, _ []float32) int                      { return 0 }
func reluBackwardVectors(_, _, _ []float32) int           { return 0 }
func addVectors(_, _ []float32) int                       { return 0 }
func addScaledVectors(_, _, _ []float32, _ float32) int   { return 0 }
func axpyVectors(_ []float32, _ float32, _ []float32) int { return 0 }
func scaleVectors(_ []float32, _ float32) int             { return 0 }
func mseGradVectors(_, _, _ []float32, _, _ float32) int  { return 0 }

func sumSquaresVectors(x []float32) float64        { return sumSquaresGeneric(x) }
func sumSquaredDiffVectors(x, y []float32) float64 { return sumSquaredDiffGeneric(x, y) }
func rowMax(x []float32) float32                   { return rowMaxGeneric(x) }
func sumExp(x []float32, shift float32) float32    { return sumExpGeneric(x, shift) }

func softmaxGrad(dx, x []float32, shift, logSum, g float32) {
	softmaxGradGeneric(dx, x, shift, logSum, g)
}

func adamBody(p, g, m, v []float32, c *AdamCoeffs) { adamBodyGeneric(p, g, m, v, c) }
