package trainer

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestSetText(t *testing.T) {
	seven := int64(7)
	for _, tc := range []struct {
		text string
		get  func(*Arguments) any
		want any
	}{
		{"learning_rate=1e-3", func(a *Arguments) any { return a.LearningRate }, 1e-3}, // YAML would call it a word
		{"learning-rate=0.5", func(a *Arguments) any { return a.LearningRate }, 0.5},
		{"max_steps=12", func(a *Arguments) any { return a.MaxSteps }, 12},
		{"max_steps=1e3", func(a *Arguments) any { return a.MaxSteps }, 1000},
		{"warmup_steps=0.1", func(a *Arguments) any { return a.WarmupSteps }, 0.1},
		{"data_seed=7", func(a *Arguments) any { return a.DataSeed }, &seven},
		{"data_seed=None", func(a *Arguments) any { return a.DataSeed }, (*int64)(nil)},
		{"data_seed=null", func(a *Arguments) any { return a.DataSeed }, (*int64)(nil)},
		{"dataloader_drop_last=true", func(a *Arguments) any { return a.DataloaderDropLast }, true},
		{"lr_scheduler_type=cosine", func(a *Arguments) any { return a.LRSchedulerType }, "cosine"},
		{"lr_scheduler_kwargs={num_cycles: 2}", func(a *Arguments) any { return a.LRSchedulerKwargs }, KeywordArguments{"num_cycles": int64(2)}},
		{"lr_scheduler_kwargs={eta_min: 1e-5, milestones: [3, 5], mode: min}", func(a *Arguments) any { return a.LRSchedulerKwargs }, KeywordArguments{"eta_min": 1e-5, "milestones": []any{int64(3), int64(5)}, "mode": "min"}},
		{"warmup_ratio=0.1", func(a *Arguments) any { return a.WarmupSteps }, 0.1},
		{"accelerator_config={split_batches: true}", func(a *Arguments) any { return a.SplitBatches }, true},
		{"accelerator_config.even_batches=false", func(a *Arguments) any { return a.EvenBatches }, false},
		{"label_smoothing_factor=0.0", func(a *Arguments) any { return a.LearningRate }, 5e-5}, // off: nothing changes
	} {
		a := DefaultArguments()
		if err := a.SetText(tc.text); err != nil {
			t.Errorf("%s: %v", tc.text, err)
		} else if got := tc.get(&a); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s gives %v, want %v", tc.text, got, tc.want)
		}
	}
}

func TestSetTextRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"learning_rate":              "is not name=value",
		"lerning_rate=1":             `did you mean "learning_rate"?`,
		"batch_size=4":               `did you mean "per_device_train_batch_size"?`,
		"zzzz=1":                     `"zzzz" is not known`,
		"learning_rate=":             "a number",
		"warmup_ratio=2":             "a number from 0 to 1",
		"max_steps=2.5":              "a whole number",
		"max_steps=many":             "a whole number",
		"learning_rate=fast":         "a number",
		"dataloader_drop_last=1":     "true or false",
		"lr_scheduler_kwargs=3":      "a mapping",
		"label_smoothing_factor=0.1": "will not train differently in silence",
		"accelerator_config.use_seedable_sampler=false": "Rejoin does not have this",
		"max_steps=[": "is not a value",
	} {
		a, before := DefaultArguments(), DefaultArguments()
		err := a.SetText(text)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: err = %v, want %q in it", text, err, says)
		}
		if !reflect.DeepEqual(a, before) {
			t.Errorf("%s changed the arguments", text)
		}
	}
}

func TestSetYAML(t *testing.T) {
	a := DefaultArguments()
	if err := a.SetYAML([]byte("learning_rate: 1e-3\nseed: 11\naccelerator_config:\n  even_batches: false\n  split_batches: true\noptim: adamw_torch\n")); err != nil {
		t.Fatal(err)
	}
	if a.LearningRate != 1e-3 || a.Seed != 11 || a.EvenBatches || !a.SplitBatches || a.Optim != "adamw_torch" {
		t.Errorf("arguments = %+v", a)
	}
	err := a.SetYAML([]byte("seed: 1\nsede: 2\nmax_steps: x\n"))
	if err == nil || !strings.Contains(err.Error(), "line 2: ") || !strings.Contains(err.Error(), "line 3: ") {
		t.Errorf("both wrong lines should be named: %v", err)
	}
	for _, text := range []string{"- a\n", "a: [\n", "seed\n"} {
		if err := a.SetYAML([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// What a manifest holds of arguments gives the same arguments.
func TestArgumentsRoundTripThroughTheManifest(t *testing.T) {
	seed := int64(0)
	a := DefaultArguments()
	a.DataSeed, a.WarmupSteps, a.SaveSteps = &seed, 0.25, 7
	a.LRSchedulerKwargs = map[string]any{"num_cycles": 0.75}
	var b Arguments
	if err := b.SetKnown(a.Map()); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("\n got %+v\nwant %+v", b, a)
	}
	if changes := a.Changes(&b); changes != nil {
		t.Errorf("changes = %v", changes)
	}
	b.MaxSteps, b.DataSeed = 9, nil
	if got := strings.Join(a.Changes(&b), "; "); got != "data_seed: 0 → None; max_steps: -1 → 9" {
		t.Errorf("changes = %s", got)
	}
}

func TestValidateNamesEveryWrongValue(t *testing.T) {
	a := DefaultArguments()
	a.PerDeviceTrainBatchSize, a.LearningRate, a.AdamBeta2, a.Optim, a.SaveStrategy = 0, math.NaN(), 1, "lion", "best"
	err := a.Validate()
	for _, name := range []string{"per_device_train_batch_size", "learning_rate", "adam_beta2", "optim", "save_strategy"} {
		if err == nil || !strings.Contains(err.Error(), "training argument "+name+": found") {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
	if _, ok := errors.AsType[*ArgumentError](err); !ok {
		t.Errorf("%v is not an *ArgumentError", err)
	}
	good := DefaultArguments()
	if err := good.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}
