package kernel

//go:generate go -C gen run . -out ../avx2_amd64.s -stubs ../avx2_amd64.go -pkg kernel

// chunk is the most elements that one call of an assembly function handles,
// because the scheduler cannot interrupt it: some 10 to 100 µs.
const chunk = 1 << 16

// eachChunk calls body with the bounds of pieces of [0, n), whole vectors of 8.
func eachChunk(n int, body func(from, to int)) {
	for from := 0; from < n; from += chunk {
		body(from, min(from+chunk, n))
	}
}
