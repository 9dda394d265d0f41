package kernel

func adamBody(p, g, m, v []float32, c *AdamCoeffs) { adamBodyGeneric(p, g, m, v, c) }
