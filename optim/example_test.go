package optim_test

import (
	"fmt"

	"rejoin/optim"
)

// A training loop: average gradients, then clip, step, step the schedule.
func Example() {
	weight := &optim.Param{Name: "fc.weight", Shape: []int{1, 2}, Values: []float32{1, -1}, Grad: []float32{3, 4}}
	bias := &optim.Param{Name: "fc.bias", Shape: []int{1}, Values: []float32{0}, Grad: []float32{0}}
	params := []*optim.Param{weight, bias}

	options := optim.DefaultOptions()
	options.LR, options.WeightDecay = 0.1, 0.01
	adam, err := optim.NewAdamW(optim.DecayGroups(params, options))
	if err != nil {
		fmt.Println(err)
		return
	}
	schedule, err := optim.NewSchedule("linear", 0, 4, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	rates, err := optim.NewScheduler(adam, schedule)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 4 {
		norm := optim.ClipGradNorm(params, 1)
		adam.Step()
		fmt.Printf("norm %.0f, rate %.3f, weight %.3f\n", norm, adam.LearningRate(0), weight.Values)
		rates.Step()
		weight.Grad[0], weight.Grad[1] = 3, 4
	}
	// Output:
	// norm 5, rate 0.100, weight [0.899 -1.099]
	// norm 5, rate 0.075, weight [0.823 -1.173]
	// norm 5, rate 0.050, weight [0.773 -1.223]
	// norm 5, rate 0.025, weight [0.748 -1.247]
}

func ExampleNewSchedule() {
	schedule, err := optim.NewSchedule("cosine", 2, 6, map[string]any{"num_cycles": 0.5})
	if err != nil {
		fmt.Println(err)
		return
	}
	for step := range 7 {
		fmt.Printf("%.4f ", schedule.Factor(step, 1e-3))
	}
	// Output:
	// 0.0000 0.5000 1.0000 0.8536 0.5000 0.1464 0.0000
}
