package trainer

import "testing"

func plan(t *testing.T, batches int, change func(*Arguments)) (Plan, Arguments) {
	t.Helper()
	args := DefaultArguments()
	change(&args)
	p, err := NewPlan(&args, batches)
	if err != nil {
		t.Fatal(err)
	}
	return p, args
}

// The counts of the four runs in testdata, as the Trainer printed them.
func TestPlanCountsLikeTheTrainer(t *testing.T) {
	for name, tc := range map[string]struct {
		batches                          int
		change                           func(*Arguments)
		updates, epochs, steps, warm, sv int
	}{
		"regression-w2": {5, func(a *Arguments) { a.MaxSteps, a.SaveSteps = 6, 2 }, 5, 2, 6, 0, 2},
		"digits-mlp-w2": {19, func(a *Arguments) {
			a.GradientAccumulationSteps, a.MaxSteps, a.SaveSteps, a.WarmupSteps = 2, 14, 4, 3
		}, 10, 2, 14, 3, 4},
		"digits-epoch-w2":       {9, func(a *Arguments) { a.WarmupSteps = 4 }, 9, 3, 27, 4, 500},
		"digits-w1":             {30, func(a *Arguments) { a.GradientAccumulationSteps, a.NumTrainEpochs, a.SaveSteps = 4, 2, 3 }, 8, 2, 16, 0, 3},
		"half an epoch":         {10, func(a *Arguments) { a.NumTrainEpochs = 2.5 }, 10, 3, 25, 0, 500},
		"fractions":             {10, func(a *Arguments) { a.MaxSteps, a.SaveSteps, a.WarmupSteps = 15, 0.1, 0.1 }, 10, 2, 15, 2, 2},
		"accumulation > epoch":  {3, func(a *Arguments) { a.GradientAccumulationSteps = 4 }, 1, 3, 3, 0, 500},
		"warm-up is a fraction": {10, func(a *Arguments) { a.WarmupSteps = 0.5 }, 10, 3, 30, 15, 500},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := plan(t, tc.batches, tc.change)
			got := [5]int{p.UpdatesPerEpoch, p.Epochs, p.MaxSteps, p.WarmupSteps, p.SaveSteps}
			if want := [5]int{tc.updates, tc.epochs, tc.steps, tc.warm, tc.sv}; got != want {
				t.Errorf("updates, epochs, steps, warm-up, save = %v, want %v", got, want)
			}
		})
	}
}

// Walking step by step and jumping to a step must agree at every step, or a resumed run
// would skip or repeat rows (D16, huggingface/transformers#5605;
// D28, huggingface/transformers#22098).
func TestPositionAtEqualsAdvancing(t *testing.T) {
	for batches := 1; batches <= 12; batches++ {
		for accumulation := 1; accumulation <= 5; accumulation++ {
			p, _ := plan(t, batches, func(a *Arguments) { a.GradientAccumulationSteps, a.NumTrainEpochs = accumulation, 3 })
			pos := Position{}
			trained := 0
			for step := range p.MaxSteps {
				if at := p.PositionAt(step); at != pos {
					t.Fatalf("B=%d G=%d: PositionAt(%d) = %+v, walked to %+v", batches, accumulation, step, at, pos)
				}
				trained += p.GroupSize(pos)
				pos, _ = p.Advance(pos)
			}
			if trained != 3*batches || pos.Epoch != 3 || pos.Batch != 0 {
				t.Errorf("B=%d G=%d: 3 epochs trained %d batches and ended at %+v", batches, accumulation, trained, pos)
			}
		}
	}
}

func TestEpochIsLoggedAsTheTrainerDoes(t *testing.T) {
	p, _ := plan(t, 30, func(a *Arguments) { a.GradientAccumulationSteps, a.NumTrainEpochs = 4, 2 })
	for _, tc := range []struct {
		step  int // the update that is done
		epoch float64
	}{{15, 1.9333333333333333}, {16, 2.0}, {8, 1.0}, {1, 4. / 30}} {
		if _, epoch := p.Advance(p.PositionAt(tc.step - 1)); epoch != tc.epoch {
			t.Errorf("epoch after step %d = %v, want %v", tc.step, epoch, tc.epoch)
		}
	}
}
