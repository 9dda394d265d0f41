package rng

// The parameters of MT19937. Source: Matsumoto and Nishimura, "Mersenne Twister:
// A 623-Dimensionally Equidistributed Uniform Pseudo-Random Number Generator",
// ACM TOMACS 8 (1998).
const (
	words     = 624
	offset    = 397
	upperMask = 0x80000000
	lowerMask = 0x7fffffff
	matrixA   = 0x9908b0df
)

// Generator is torch's CPU generator. It is not safe for concurrent use.
//
// Its invariants, held by [FromState] on foreign bytes:
//
//  1. next ≤ 624; it is the number of words drawn from the current block.
//  2. fresh means that no block was made yet: next is 0 and the words are the seed's.
type Generator struct {
	seed  uint64 // as given; only its low 32 bits choose the sequence
	block [words]uint32
	next  int
	fresh bool

	normal    float64 // the second value of the last Box-Muller pair
	hasNormal bool
	// A float sample is never cached by torch's CPU kernels, but it has its
	// place in the state.
	normalFloat    float32
	hasNormalFloat bool
}

// New returns the generator as torch.manual_seed(seed) leaves it. A negative
// Python seed is its two's complement.
func New(seed uint64) *Generator {
	g := &Generator{seed: seed, fresh: true}
	g.block[0] = uint32(seed)
	for i := 1; i < words; i++ {
		prev := g.block[i-1]
		g.block[i] = 1812433253*(prev^prev>>30) + uint32(i)
	}
	return g
}

// InitialSeed is the seed given to [New], or the one a state was made from.
func (g *Generator) InitialSeed() uint64 { return g.seed }

// refill makes the next 624 words.
func (g *Generator) refill() {
	b := &g.block
	twist := func(i, following, far int) {
		y := b[i]&upperMask | b[following]&lowerMask
		b[i] = b[far] ^ y>>1 ^ (y&1)*matrixA
	}
	for i := range words - offset {
		twist(i, i+1, i+offset)
	}
	for i := words - offset; i < words-1; i++ {
		twist(i, i+1, i+offset-words)
	}
	twist(words-1, 0, offset-1)
	g.next, g.fresh = 0, false
}

// Uint32 draws one word.
func (g *Generator) Uint32() uint32 {
	if g.fresh || g.next == words {
		g.refill()
	}
	y := g.block[g.next]
	g.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// Uint64 draws two words, the first being the upper half.
func (g *Generator) Uint64() uint64 {
	hi := uint64(g.Uint32())
	return hi<<32 | uint64(g.Uint32())
}
