package trainer

import (
	"slices"
	"testing"
)

// flow lists what a run of the plan does: s3:log is by steps after update 3,
// e5:save by epochs after update 5.
func flow(p Plan, args *Arguments) (out []string) {
	note := func(phase string, step int, c *control) {
		for _, on := range []struct {
			is   bool
			name string
		}{{c.log, "log"}, {c.evaluate, "evaluate"}, {c.save, "save"}} {
			if on.is {
				out = append(out, phase+string(rune('0'+step))+":"+on.name)
			}
		}
		c.log, c.evaluate, c.save = false, false, false
	}
	var pos Position
	var c control
	for !c.stop {
		var epoch float64
		pos, epoch = p.Advance(pos)
		p.stepEnd(args, pos.Step, &c)
		note("s", pos.Step, &c)
		if pos.Batch == 0 || c.stop {
			p.epochEnd(args, epoch, &c)
			note("e", pos.Step, &c)
		}
	}
	return out
}

func TestFlowIsDefaultFlowCallbacks(t *testing.T) {
	steps := func(n float64) *float64 { return &n }
	for name, tc := range map[string]struct {
		change func(*Arguments)
		want   []string
	}{
		"by steps": {
			func(a *Arguments) { a.SaveSteps, a.LoggingSteps = 2, 3 },
			[]string{"s2:save", "s3:log", "s4:save", "s6:log", "s6:save", "s7:save"},
		},
		"by epochs; a cut epoch ends too": {
			func(a *Arguments) { a.SaveStrategy, a.LoggingStrategy, a.LoggingFirstStep = "epoch", "epoch", true },
			[]string{"s1:log", "e5:log", "e5:save", "e7:log", "e7:save"},
		},
		"never": {func(a *Arguments) { a.SaveStrategy, a.LoggingStrategy = "no", "no" }, nil},
		"evaluated at the end in any case": {
			func(a *Arguments) {
				a.SaveStrategy, a.LoggingStrategy, a.EvalStrategy, a.EvalSteps = "no", "no", "steps", steps(3)
			},
			[]string{"s3:evaluate", "s6:evaluate", "s7:evaluate"},
		},
		"a delay in steps, intervals as fractions": {
			func(a *Arguments) {
				a.SaveStrategy, a.LoggingStrategy, a.EvalStrategy, a.EvalSteps, a.EvalDelay = "no", "no", "steps", steps(0.25), 3
			},
			[]string{"s4:evaluate", "s6:evaluate", "s7:evaluate"},
		},
		"a delay in epochs": {
			func(a *Arguments) {
				a.SaveStrategy, a.LoggingStrategy, a.EvalStrategy, a.EvalDelay = "no", "epoch", "epoch", 1.2
			},
			[]string{"e5:log", "e7:log", "e7:evaluate"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, args := plan(t, 5, func(a *Arguments) { a.MaxSteps = 7; tc.change(a) })
			if got := flow(p, &args); !slices.Equal(got, tc.want) {
				t.Errorf("flow = %v, want %v", got, tc.want)
			}
		})
	}
}
