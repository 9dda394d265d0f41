package trainer

import (
	"context"
	"fmt"
	"testing"

	"rejoin/collective"
	"rejoin/collective/collectivetest"
)

// What any rank wishes for, every rank sees, and no gradient is touched by it,
// whatever the number of ranks and buckets.
func TestWishesTravelWithTheGradients(t *testing.T) {
	const mib = 1 << 18 // elements of a MiB
	for name, offsets := range map[string][]int{"one bucket": {0, 16}, "two buckets": {0, 2 * mib}} {
		for _, size := range []int{1, 2, 3, 5} {
			for asking := range size {
				t.Run(fmt.Sprintf("%s, rank %d of %d", name, asking, size), func(t *testing.T) {
					total := offsets[1] + 16
					collectivetest.Run(t, size, func(ctx context.Context, g *collective.Group) error {
						grads := make([]float32, total, total+numWishes)
						for i := range grads {
							grads[i] = float32(size * (g.Rank() + 1))
						}
						r := newReducer(g, grads, offsets)
						for i, want := range []wishes{{save: true}, {stop: true}, {settle: true}, {}, {save: true, stop: true}} {
							mine := wishes{}
							if g.Rank() == asking {
								mine = want
							}
							if err := step(ctx, r, mine); err != nil {
								return err
							}
							if got := r.agreed(); got != want {
								return fmt.Errorf("round %d: rank %d sees %+v, want %+v", i, g.Rank(), got, want)
							}
						}
						if want := float32(size*(size+1)) / 2; grads[0] != want || grads[total-1] != want {
							return fmt.Errorf("gradients are %v and %v, want %v", grads[0], grads[total-1], want)
						}
						return nil
					})
				})
			}
		}
	}
}

func step(ctx context.Context, r *reducer, mine wishes) error {
	r.begin(ctx, mine)
	r.gradientReady(1)
	r.gradientReady(0)
	return r.wait(ctx)
}

func TestRequestsAreTakenOnce(t *testing.T) {
	r := newRun(soleRank{}, &Job{}, Output{}, &Requests{})
	if got := r.wishes(); got != (wishes{}) {
		t.Errorf("nobody asked, yet %+v", got)
	}
	r.requests.Save()
	r.requests.Save()
	if got := r.wishes(); !got.save || got.stop {
		t.Errorf("asked to save: %+v", got)
	}
	if got := r.wishes(); got.save {
		t.Error("one request saved twice")
	}
	r.requests.Stop("first")
	r.requests.Stop("second")
	for range 2 { // a request to stop stays
		if got := r.wishes(); !got.stop || r.requests.reason() != "first" {
			t.Errorf("asked to stop: %+v, %s", got, r.requests.reason())
		}
	}
}

func TestShellWord(t *testing.T) {
	for path, want := range map[string]string{
		"out/checkpoint-2": "out/checkpoint-2", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "é": "'é'",
	} {
		if got := shellWord(path); got != want {
			t.Errorf("%q is spelled %s, want %s", path, got, want)
		}
	}
}
