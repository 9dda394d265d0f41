package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"rejoin/collective/plan"
)

// machine runs the plans of all ranks symbolically: a value is the text of the
// expression that computed it, so equal text means equal bits.
type machine struct {
	t        *testing.T
	own      [][]string // by rank, element
	steps    [][]plan.Step
	links    map[[2]int][]message
	capacity int
	stored   []map[int]int // by rank: stores per element
	sent     []int         // elements sent, by rank
	outbox   []*message    // by rank: computed, waiting for room on its link
}

type message struct {
	tag    uint32
	r      plan.Range
	values []string
}

// newMachine makes size ranks of the given plan; input names rank r's element i.
func newMachine(t *testing.T, size, capacity, length int, input func(rank, i int) string, steps func(rank int) plan.Steps) *machine {
	t.Helper()
	m := &machine{t: t, links: map[[2]int][]message{}, capacity: capacity, sent: make([]int, size), outbox: make([]*message, size)}
	for r := range size {
		own := make([]string, length)
		for i := range own {
			own[i] = input(r, i)
		}
		m.own = append(m.own, own)
		m.steps = append(m.steps, slices.Collect(steps(r)))
		m.stored = append(m.stored, map[int]int{})
	}
	return m
}

// run advances all ranks in turn until none has a step left, and fails when no
// rank can move or a message stays undelivered.
func (m *machine) run() {
	m.t.Helper()
	for {
		moved, left := false, false
		for r := range m.steps {
			for len(m.steps[r]) > 0 && m.try(r, m.steps[r][0]) {
				m.steps[r] = m.steps[r][1:]
				moved = true
			}
			left = left || len(m.steps[r]) > 0
		}
		if !left {
			break
		}
		if !moved {
			m.t.Fatalf("deadlock; rank 0's next step is %+v", m.steps[0][0])
		}
	}
	for link, q := range m.links {
		if len(q) > 0 {
			m.t.Fatalf("%d messages from %d to %d were never received", len(q), link[0], link[1])
		}
	}
}

// try carries out one step of rank r, or reports that it must wait.
func (m *machine) try(r int, s plan.Step) bool {
	m.t.Helper()
	if m.outbox[r] != nil {
		return m.flush(r, s)
	}
	in := [2]int{s.From, r}
	if s.From != plan.Nobody && len(m.links[in]) == 0 {
		return false
	}
	value := slices.Clone(m.own[r][s.Range.Lo:s.Range.Hi])
	if s.From != plan.Nobody {
		got := m.links[in][0]
		m.links[in] = m.links[in][1:]
		if got.tag != s.RecvTag || got.r != s.Range {
			m.t.Fatalf("rank %d expected tag %d %v from %d, got tag %d %v", r, s.RecvTag, s.Range, s.From, got.tag, got.r)
		}
		combine(value, got.values, s.Combine)
	} else if s.Combine != plan.Own {
		m.t.Fatalf("rank %d combines with nobody: %+v", r, s)
	}
	if s.Store {
		copy(m.own[r][s.Range.Lo:], value)
		for i := s.Range.Lo; i < s.Range.Hi; i++ {
			m.stored[r][i]++
		}
	}
	if s.To != plan.Nobody {
		m.outbox[r] = &message{s.SendTag, s.Range, value}
		return m.flush(r, s)
	}
	return true
}

// flush puts what step s computed on its link, or reports that the link is full.
func (m *machine) flush(r int, s plan.Step) bool {
	out := [2]int{r, s.To}
	if len(m.links[out]) >= m.capacity {
		return false
	}
	m.links[out] = append(m.links[out], *m.outbox[r])
	m.outbox[r] = nil
	m.sent[r] += s.Range.Len()
	return true
}

func combine(value, got []string, how plan.Combine) {
	for i := range value {
		switch how {
		case plan.Own:
		case plan.Replace:
			value[i] = got[i]
		case plan.AddLeft:
			value[i] = "(" + got[i] + "+" + value[i] + ")"
		case plan.AddRight:
			value[i] = "(" + value[i] + "+" + got[i] + ")"
		}
	}
}

// checkSum verifies that every rank holds the same expression for every
// element and that it sums each rank's input once.
func (m *machine) checkSum() {
	m.t.Helper()
	size := len(m.own)
	for i := range m.own[0] {
		want := m.own[0][i]
		for r := range size {
			if m.own[r][i] != want {
				m.t.Fatalf("element %d is %s on rank 0 and %s on rank %d", i, want, m.own[r][i], r)
			}
		}
		count := map[byte]int{}
		for _, c := range []byte(want) {
			count[c]++
		}
		for r := range size {
			if count[byte('a'+r)] != 1 {
				m.t.Fatalf("element %d = %s: rank %d's input is there %d times", i, want, r, count[byte('a'+r)])
			}
		}
	}
}

func letter(rank, _ int) string { return string(rune('a' + rank)) }

var lengths = []int{0, 1, 2, 7, 16, 33, 100}

// each runs f for every size, length, segment and inflight worth trying.
func each(t *testing.T, f func(t *testing.T, size, length, segment, inflight int)) {
	t.Helper()
	for size := 2; size <= 16; size++ {
		t.Run(fmt.Sprintf("P=%d", size), func(t *testing.T) {
			for _, length := range lengths {
				for _, segment := range []int{1, 3, 8, 1000} {
					for _, inflight := range []int{1, 4} {
						f(t, size, length, segment, inflight)
					}
				}
			}
		})
	}
}

func TestRingSumsOnEveryRankAlike(t *testing.T) {
	each(t, func(t *testing.T, size, length, segment, inflight int) {
		t.Helper()
		m := newMachine(t, size, inflight, length, letter, func(r int) plan.Steps {
			return plan.Ring(r, size, length, segment, inflight)
		})
		m.run()
		m.checkSum()
		for r := range size {
			for i := range length {
				if m.stored[r][i] != 1 {
					t.Fatalf("rank %d stored element %d %d times, want once", r, i, m.stored[r][i])
				}
			}
		}
	})
}

// Nothing may be stored before its value has met every rank's header.
func TestRingStoresOnlyWhatAllRanksHaveSeen(t *testing.T) {
	for size := 2; size <= 16; size++ {
		m := newMachine(t, size, 3, 40, letter, func(r int) plan.Steps { return plan.Ring(r, size, 40, 2, 3) })
		for r := range m.steps {
			for _, s := range m.steps[r] {
				if s.Combine == plan.AddLeft && s.Store {
					// Its sender computed the sum of size-1 ranks.
					if round := int(s.RecvTag)%(2*(size-1)) + 1; round != size-1 {
						t.Fatalf("P=%d: stored in round %d, want %d", size, round, size-1)
					}
				}
			}
		}
	}
}

func TestRingSendsNoMoreThanItsShare(t *testing.T) {
	for size := 2; size <= 16; size++ {
		length := size * 60
		m := newMachine(t, size, 2, length, letter, func(r int) plan.Steps { return plan.Ring(r, size, length, 10, 2) })
		m.run()
		for r, n := range m.sent {
			if want := 2 * (size - 1) * length / size; n != want {
				t.Errorf("P=%d: rank %d sent %d elements, want %d", size, r, n, want)
			}
		}
	}
}

func TestDoublingSumsOnEveryRankAlike(t *testing.T) {
	each(t, func(t *testing.T, size, length, segment, inflight int) {
		t.Helper()
		m := newMachine(t, size, inflight, length, letter, func(r int) plan.Steps {
			return plan.Doubling(r, size, length, segment, inflight)
		})
		m.run()
		m.checkSum()
	})
}

func TestDoublingTree(t *testing.T) {
	for size, want := range map[int]string{
		2: "(a+b)", 3: "((a+c)+b)", 4: "((a+b)+(c+d))", 5: "(((a+e)+b)+(c+d))",
		8: "(((a+b)+(c+d))+((e+f)+(g+h)))",
	} {
		m := newMachine(t, size, 1, 1, letter, func(r int) plan.Steps { return plan.Doubling(r, size, 1, 1, 1) })
		m.run()
		if got := m.own[0][0]; got != want {
			t.Errorf("P=%d: %s, want %s", size, got, want)
		}
	}
}

func TestBroadcastReachesEveryRank(t *testing.T) {
	for size := 2; size <= 16; size++ {
		for root := range size {
			for _, length := range lengths {
				m := newMachine(t, size, 1, length, func(r, i int) string { return fmt.Sprint(r, ".", i) },
					func(r int) plan.Steps { return plan.Broadcast(r, size, root, length, 4) })
				m.run()
				for r := range size {
					for i, v := range m.own[r] {
						if want := fmt.Sprint(root, ".", i); v != want {
							t.Fatalf("P=%d root %d: rank %d has %s for %s", size, root, r, v, want)
						}
					}
				}
			}
		}
	}
}

// The root must be the last to finish: its broadcast is a promise that all
// ranks have the data.
func TestBroadcastRootHearsFromEverySubtree(t *testing.T) {
	for size := 2; size <= 16; size++ {
		for r := range size {
			down, up := 0, 0
			for s := range plan.Broadcast(r, size, 3%size, 10, 4) {
				if s.To != plan.Nobody && s.Range.Len() > 0 {
					down++
				}
				if s.From != plan.Nobody && s.Range.Len() == 0 {
					up++
				}
			}
			if down != 3*up {
				t.Errorf("P=%d: rank %d sent 3 segments to each child, %d in all, and heard %d acknowledgements", size, r, down, up)
			}
		}
	}
}

func TestGatherBringsEveryPartToEveryRank(t *testing.T) {
	for size := 2; size <= 16; size++ {
		for _, base := range []int{0, 1, 7} {
			offsets := []int{0}
			for r := range size { // lengths differ, some are zero
				offsets = append(offsets, offsets[r]+base*(r%4))
			}
			owner := func(i int) int {
				for r := range size {
					if i < offsets[r+1] {
						return r
					}
				}
				return -1
			}
			m := newMachine(t, size, 1, offsets[size], func(r, i int) string {
				if owner(i) == r {
					return fmt.Sprint(r, ".", i)
				}
				return "?"
			}, func(r int) plan.Steps { return plan.Gather(r, offsets, 3) })
			m.run()
			for r := range size {
				for i, v := range m.own[r] {
					if want := fmt.Sprint(owner(i), ".", i); v != want {
						t.Fatalf("P=%d: rank %d has %s for %s", size, r, v, want)
					}
				}
			}
		}
	}
}

// A rank leaves the barrier only when every rank has entered it.
func TestBarrierHoldsUntilAllAreIn(t *testing.T) {
	for size := 2; size <= 16; size++ {
		for late := range size {
			m := newMachine(t, size, 1, 0, letter, func(r int) plan.Steps { return plan.Barrier(r, size) })
			held := m.steps[late]
			m.steps[late] = []plan.Step{{From: late, To: plan.Nobody}} // waits for itself, for ever
			for moved := true; moved; {
				moved = false
				for r := range m.steps {
					for len(m.steps[r]) > 0 && m.try(r, m.steps[r][0]) {
						m.steps[r], moved = m.steps[r][1:], true
					}
				}
			}
			for r := range size {
				if len(m.steps[r]) == 0 {
					t.Fatalf("P=%d: rank %d left while rank %d was not in", size, r, late)
				}
			}
			m.steps[late] = held
			m.run()
		}
	}
}

// A plan may be abandoned at any step.
func TestStepsStopWhenAsked(t *testing.T) {
	for name, steps := range map[string]plan.Steps{
		"ring":      plan.Ring(1, 4, 100, 3, 2),
		"doubling":  plan.Doubling(1, 4, 100, 3, 2),
		"broadcast": plan.Broadcast(1, 4, 0, 100, 3),
		"gather":    plan.Gather(1, []int{0, 5, 9, 20, 30}, 3),
		"barrier":   plan.Barrier(1, 4),
	} {
		total := len(slices.Collect(steps))
		for stop := 1; stop <= total; stop++ {
			n := 0
			for range steps {
				if n++; n == stop {
					break
				}
			}
			if n != stop {
				t.Errorf("%s: stopped after %d steps, want %d", name, n, stop)
			}
		}
	}
}

func ExampleRing() {
	for s := range plan.Ring(0, 2, 10, 1<<20, 1) {
		fmt.Printf("from %d to %d elements %v store %v\n", s.From, s.To, s.Range, s.Store)
	}
	// Output:
	// from -1 to 1 elements {0 5} store false
	// from 1 to 1 elements {5 10} store true
	// from 1 to -1 elements {0 5} store true
}
