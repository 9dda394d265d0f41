package trainer

import (
	"math"
	"testing"

	"rejoin/ckpt/hf"
)

// The sequences are EarlyStoppingCallback's on the same values: best is what the
// Trainer holds before each, since it compares for the best model afterwards.
func TestEarlyStoppingCountsLikeTheCallback(t *testing.T) {
	greater := true
	nan := math.NaN()
	for name, tc := range map[string]struct {
		args      Arguments
		patience  int
		threshold float64
		values    []float64
		stopsAt   int // from 0; -1 never
	}{
		"always better":             {Arguments{}, 1, 0, []float64{3, 2, 1}, -1},
		"equal is not better":       {Arguments{}, 2, 0, []float64{3, 3, 3, 1}, 2},
		"better by too little":      {Arguments{}, 2, 0.5, []float64{3, 2.9, 2.8, 2}, 2},
		"the counter begins again":  {Arguments{}, 2, 0, []float64{3, 4, 2, 4, 1, 2, 3}, 6},
		"NaN is never better":       {Arguments{}, 2, 0, []float64{3, nan, nan}, 2},
		"greater":                   {Arguments{GreaterIsBetter: &greater}, 1, 0, []float64{1, 2, 3, 2}, 3},
		"the first one always does": {Arguments{}, 1, 100, []float64{3}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			e := &earlyStopping{patience: tc.patience, threshold: tc.threshold}
			best, has, stopped := 0.0, false, -1
			for i, v := range tc.values {
				if e.observe(&tc.args, v, best, has) && stopped < 0 {
					stopped = i
				}
				if !has || tc.args.better(v, best) {
					best, has = v, true
				}
			}
			if stopped != tc.stopsAt {
				t.Errorf("stopped at %d, want %d", stopped, tc.stopsAt)
			}
		})
	}
}

func TestEarlyStoppingGoesOnFromTheState(t *testing.T) {
	patience := 4
	args := Arguments{EarlyStoppingPatience: &patience, EarlyStoppingThreshold: 0.25}
	state := hf.NewTrainerState()
	e := newEarlyStopping(&args, state)
	e.counter = 3
	state.Set("stateful_callbacks", map[string]any{earlyStoppingName: e.state()})
	if again := newEarlyStopping(&args, state); again.counter != 3 || again.done() {
		t.Errorf("restored %+v", again)
	}
	var taken Arguments
	if err := taken.takeEarlyStopping(state); err != nil || *taken.EarlyStoppingPatience != 4 || taken.EarlyStoppingThreshold != 0.25 {
		t.Errorf("took %+v, %v", taken, err)
	}
	if none := newEarlyStopping(&Arguments{}, state); none != nil || none.done() {
		t.Errorf("without a patience there is %+v", none)
	}
}

// numpy 2.4.6: np.array(x, np.float32).sum() of x[i] = float32(1/(i+1)) * (-1)^(i/3).
func TestPairwiseSumIsNumpys(t *testing.T) {
	for n, want := range numpySums {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(1 / float64(i+1))
			if i/3%2 == 1 {
				x[i] = -x[i]
			}
		}
		if got := math.Float32bits(pairwiseSum(x)); got != want {
			t.Errorf("sum of %d = %#x, want %#x", n, got, want)
		}
	}
}

var numpySums = map[int]uint32{
	0:     0x0,
	1:     0x3f800000,
	7:     0x3fae04e1,
	8:     0x3fbe04e0,
	9:     0x3fcc3dc4,
	41:    0x3fb6e2bf,
	128:   0x3fb8d790,
	129:   0x3fb9d596,
	130:   0x3fb8d986,
	137:   0x3fb7e4a9,
	255:   0x3fb91a70,
	256:   0x3fb89a6f,
	1000:  0x3fb86a7a,
	4099:  0x3fb85611,
	20011: 0x3fb85940,
}
