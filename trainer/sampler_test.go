package trainer

import (
	"reflect"
	"strings"
	"testing"

	"rejoin/data"
)

func TestNewSamplerByName(t *testing.T) {
	args := DefaultArguments()
	args.PerDeviceTrainBatchSize = 2
	yes, seed := true, int64(9)
	for name, c := range map[string]struct {
		sampler string
		change  func(*Arguments)
		want    sampler
	}{
		"default":     {SeedableRandom, func(*Arguments) {}, data.Sampler{Rows: 11, BatchSize: 2, WorldSize: 2, Rank: 1, EvenBatches: true, Seed: 42}},
		"data_seed":   {SeedableRandom, func(a *Arguments) { a.DataSeed = &seed }, data.Sampler{Rows: 11, BatchSize: 2, WorldSize: 2, Rank: 1, EvenBatches: true, Seed: 9}},
		"dispatch":    {SeedableRandom, func(a *Arguments) { a.DispatchBatches = &yes }, data.Sampler{Rows: 11, BatchSize: 2, WorldSize: 2, Rank: 1, EvenBatches: true, DispatchBatches: true, Seed: 42}},
		"sequential":  {Sequential, func(*Arguments) {}, data.Sampler{Rows: 11, BatchSize: 2, WorldSize: 2, Rank: 1, EvenBatches: true, Sequential: true, Seed: 42}},
		"distributed": {Distributed, func(*Arguments) {}, data.DistributedSampler{Rows: 11, BatchSize: 2, WorldSize: 2, Rank: 1}},
		"its seed":    {Distributed, func(a *Arguments) { a.DataSeed, a.DataloaderDropLast = &seed, true }, data.DistributedSampler{Rows: 11, BatchSize: 2, WorldSize: 2, Rank: 1, DropLastBatch: true, Seed: 9}},
	} {
		a := args
		c.change(&a)
		got, err := newSampler(c.sampler, &a, 11, 2, 1)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, expected %+v", name, got, err, c.want)
		}
	}
}

func TestNewSamplerRefuses(t *testing.T) {
	args := DefaultArguments()
	if _, err := newSampler("random", &args, 11, 2, 0); err == nil || !strings.Contains(err.Error(), `found "random", expected seedable_random`) {
		t.Errorf("an unknown name: %v", err)
	}
	if _, err := newSampler(Sequential, &args, 0, 2, 0); err == nil || !strings.Contains(err.Error(), "there are 0 rows") {
		t.Errorf("no rows: %v", err)
	}
	args.SplitBatches = true
	if _, err := newSampler(Distributed, &args, 11, 2, 0); err == nil || !strings.Contains(err.Error(), "leave accelerator_config.split_batches") {
		t.Errorf("split batches: %v", err)
	}
}

// dispatch_batches is the Trainer's: None, true or false, and kept as it was.
func TestDispatchBatchesArgument(t *testing.T) {
	a := DefaultArguments()
	if a.DispatchesBatches() || a.Map()["accelerator_config.dispatch_batches"] != nil {
		t.Error("None is not the default")
	}
	if err := a.SetText("accelerator_config.dispatch_batches=true"); err != nil || !a.DispatchesBatches() {
		t.Errorf("true: %v", err)
	}
	if got := a.Map()["accelerator_config.dispatch_batches"]; got != true {
		t.Errorf("kept as %v", got)
	}
	if err := a.SetText("accelerator_config.dispatch_batches=None"); err != nil || a.DispatchesBatches() {
		t.Errorf("None: %v", err)
	}
}
