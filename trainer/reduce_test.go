package trainer

import (
	"slices"
	"testing"
)

func TestBucketsCoverTheGradientBackwards(t *testing.T) {
	mib := 1 << 18 // elements of a MiB
	for name, tc := range map[string]struct {
		offsets []int
		total   int
		want    []bucket
		ofParam []int
	}{
		"one small":      {[]int{0, 16}, 32, []bucket{{0, 32, 2}}, []int{0, 0}},
		"first is 1 MiB": {[]int{0, mib, mib + 16}, mib + 32, []bucket{{mib, mib + 32, 2}, {0, mib, 1}}, []int{1, 0, 0}},
		"a huge one stands alone": {
			[]int{0, 16, 16 + 40*mib},
			32 + 40*mib,
			[]bucket{{16 + 40*mib, 32 + 40*mib, 1}, {16, 16 + 40*mib, 1}, {0, 16, 1}},
			[]int{2, 1, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, ofParam := buckets(tc.offsets, tc.total)
			if !slices.Equal(got, tc.want) || !slices.Equal(ofParam, tc.ofParam) {
				t.Errorf("buckets = %v of %v, want %v of %v", got, ofParam, tc.want, tc.ofParam)
			}
		})
	}
}
