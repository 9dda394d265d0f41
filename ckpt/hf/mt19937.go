package hf

// mtSize is the number of 32-bit words in the state of MT19937.
const mtSize = 624

// initGenrand seeds MT19937 by one number, as np.random.seed(seed) does.
// Source: init_genrand of Matsumoto and Nishimura, mt19937ar.c, 2002.
func initGenrand(seed uint32) [mtSize]uint32 {
	var mt [mtSize]uint32
	mt[0] = seed
	for i := 1; i < mtSize; i++ {
		mt[i] = 1812433253*(mt[i-1]^mt[i-1]>>30) + uint32(i)
	}
	return mt
}

// initByArray seeds MT19937 by a list of numbers, as random.seed(seed) does
// with the 32-bit digits of seed, least significant first.
// Source: init_by_array of the same mt19937ar.c.
func initByArray(key []uint32) [mtSize]uint32 {
	mt := initGenrand(19650218)
	i, j := 1, 0
	step := func(by, add uint32) {
		mt[i] = (mt[i] ^ (mt[i-1]^mt[i-1]>>30)*by) + add
		if i++; i == mtSize {
			mt[0], i = mt[mtSize-1], 1
		}
	}
	for range max(mtSize, len(key)) {
		step(1664525, key[j]+uint32(j))
		j = (j + 1) % len(key)
	}
	for range mtSize - 1 {
		step(1566083941, -uint32(i))
	}
	mt[0] = 1 << 31
	return mt
}
