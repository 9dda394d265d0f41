package trainer

import (
	"encoding/json"
	"math"
	"testing"
)

func TestTraceHoldsLossesThatAreNotFinite(t *testing.T) {
	tr := &trace{}
	for _, loss := range []float64{0.5, math.NaN(), math.Inf(1)} {
		tr.add([]int{1}, float32(loss))
	}
	text, err := json.Marshal(tr)
	const want = `{"rank":0,"world_size":0,"first_step":0,"micro_batches":[[1],[1],[1]],"losses":[0.5,null,null]}`
	if err != nil || string(text) != want {
		t.Errorf("trace = %s, %v", text, err)
	}
}
