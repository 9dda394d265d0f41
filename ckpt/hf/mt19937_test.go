package hf

import "testing"

// The words are what random.seed(n); random.getstate() and
// np.random.seed(n); np.random.get_state() of CPython 3.13 and numpy 2.4 hold.
func TestSeeding(t *testing.T) {
	for _, c := range []struct {
		name string
		got  [mtSize]uint32
		at   map[int]uint32
	}{
		{"random.seed(42)", initByArray([]uint32{42}), map[int]uint32{0: 1 << 31, 1: 3564348608, 2: 1266698288, 311: 3918217378, 623: 3831079317}},
		{"random.seed(0)", initByArray([]uint32{0}), map[int]uint32{0: 1 << 31, 1: 766982754, 2: 497961170, 311: 652504502, 623: 2902720905}},
		{"random.seed(2**32-1)", initByArray([]uint32{1<<32 - 1}), map[int]uint32{0: 1 << 31, 1: 2159790430, 2: 4274725319, 311: 3298412812, 623: 2300076184}},
		{"np.random.seed(42)", initGenrand(42), map[int]uint32{0: 42, 1: 3107752595, 2: 1895908407, 311: 1303595780, 623: 26719530}},
		{"np.random.seed(0)", initGenrand(0), map[int]uint32{0: 0, 1: 1, 2: 1812433255, 311: 200524822, 623: 1796872496}},
		{"np.random.seed(2**32-1)", initGenrand(1<<32 - 1), map[int]uint32{0: 1<<32 - 1, 1: 1340201581, 2: 3941791902, 311: 2715907864, 623: 3413567280}},
	} {
		for i, want := range c.at {
			if c.got[i] != want {
				t.Errorf("%s: word %d is %d, want %d", c.name, i, c.got[i], want)
			}
		}
	}
}
