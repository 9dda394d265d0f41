package trainer

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"rejoin/ckpt/hf"
)

// Arguments are the training arguments that Rejoin honours, under the names and
// with the defaults of transformers.TrainingArguments (5.12). The tag is the
// name; a dotted one lies inside a nested argument.
type Arguments struct {
	PerDeviceTrainBatchSize   int     `arg:"per_device_train_batch_size"`
	GradientAccumulationSteps int     `arg:"gradient_accumulation_steps"`
	NumTrainEpochs            float64 `arg:"num_train_epochs"`
	MaxSteps                  int     `arg:"max_steps"` // ≤ 0: num_train_epochs decides

	LearningRate      float64          `arg:"learning_rate"`
	WeightDecay       float64          `arg:"weight_decay"`
	AdamBeta1         float64          `arg:"adam_beta1"`
	AdamBeta2         float64          `arg:"adam_beta2"`
	AdamEpsilon       float64          `arg:"adam_epsilon"`
	MaxGradNorm       float64          `arg:"max_grad_norm"` // 0: measured, not clipped
	Optim             string           `arg:"optim"`         // one of optimizerNames
	OptimArgs         *string          `arg:"optim_args"`    // "name=value,…", see applyOptimArgs; nil for none
	LRSchedulerType   string           `arg:"lr_scheduler_type"`
	LRSchedulerKwargs KeywordArguments `arg:"lr_scheduler_kwargs"`
	// LRSchedulerInterval is Rejoin's own: when torch's classes are stepped.
	LRSchedulerInterval string  `arg:"lr_scheduler_interval"`
	WarmupSteps         float64 `arg:"warmup_steps"` // below 1: a fraction of all steps

	Seed     int64  `arg:"seed"`
	DataSeed *int64 `arg:"data_seed"` // nil: Seed

	LoggingStrategy  string  `arg:"logging_strategy"`
	LoggingSteps     float64 `arg:"logging_steps"` // below 1: a fraction of all steps
	LoggingFirstStep bool    `arg:"logging_first_step"`
	SaveStrategy     string  `arg:"save_strategy"`
	SaveSteps        float64 `arg:"save_steps"`       // below 1: a fraction of all steps
	SaveTotalLimit   *int64  `arg:"save_total_limit"` // nil or below 1: checkpoints are not removed

	EvalStrategy           string   `arg:"eval_strategy"`
	EvalSteps              *float64 `arg:"eval_steps"` // below 1: a fraction of all steps; nil: LoggingSteps
	EvalDelay              float64  `arg:"eval_delay"` // steps or epochs, by the strategy, before the first one
	EvalOnStart            bool     `arg:"eval_on_start"`
	PerDeviceEvalBatchSize int      `arg:"per_device_eval_batch_size"`
	LoadBestModelAtEnd     bool     `arg:"load_best_model_at_end"`
	MetricForBestModel     *string  `arg:"metric_for_best_model"`
	GreaterIsBetter        *bool    `arg:"greater_is_better"`

	// EarlyStoppingCallback's; the Trainer has them outside its arguments.
	EarlyStoppingPatience  *int    `arg:"early_stopping_patience"` // nil: no early stopping
	EarlyStoppingThreshold float64 `arg:"early_stopping_threshold"`
	// OnNaN is Rejoin's own: stop, skip or go-on.
	OnNaN string `arg:"on_nan"`

	DataloaderDropLast bool  `arg:"dataloader_drop_last"`
	SplitBatches       bool  `arg:"accelerator_config.split_batches"`
	EvenBatches        bool  `arg:"accelerator_config.even_batches"`
	DispatchBatches    *bool `arg:"accelerator_config.dispatch_batches"` // nil: off, for tables
	// UnevenRanks is Rejoin's own: unevenAsTrainer, unevenDrop or unevenJoin.
	UnevenRanks string `arg:"uneven_ranks"`
}

// DefaultArguments are the Trainer's defaults.
func DefaultArguments() Arguments {
	return Arguments{
		PerDeviceTrainBatchSize: 8, GradientAccumulationSteps: 1, NumTrainEpochs: 3, MaxSteps: -1,
		LearningRate: 5e-5, AdamBeta1: 0.9, AdamBeta2: 0.999, AdamEpsilon: 1e-8, MaxGradNorm: 1,
		Optim: "adamw_torch_fused", LRSchedulerType: "linear", LRSchedulerInterval: everyUpdate,
		Seed: 42, LoggingStrategy: "steps", LoggingSteps: 500, SaveStrategy: "steps", SaveSteps: 500,
		EvalStrategy: "no", PerDeviceEvalBatchSize: 8, OnNaN: nanStop,
		EvenBatches: true, UnevenRanks: unevenAsTrainer,
	}
}

// SamplerSeed is the seed of the sampler's generator: data_seed, or seed.
func (a *Arguments) SamplerSeed() int64 {
	if a.DataSeed != nil {
		return *a.DataSeed
	}
	return a.Seed
}

// What becomes of an epoch's last rows where they do not fill a round of all
// ranks: uneven_ranks.
const (
	unevenAsTrainer = "trainer" // as dataloader_drop_last and even_batches say
	unevenDrop      = "drop"    // they are left out, by torch's DistributedSampler too
	unevenJoin      = "join"    // ranks without rows take part without any
)

// joins tells whether ranks may run out of rows.
func (a *Arguments) joins() bool { return a.UnevenRanks == unevenJoin }

// pads tells whether an epoch's last, short round is filled with its first rows.
func (a *Arguments) pads() bool { return a.EvenBatches && !a.joins() }

// setUneven declares what to do with an epoch's last round where its rows do not
// fill it: pad, drop or join.
func (a *Arguments) setUneven(policy string) error {
	a.EvenBatches, a.DataloaderDropLast = policy == "pad", policy == "drop"
	switch policy {
	case "pad":
		a.UnevenRanks = unevenAsTrainer
	case unevenDrop, unevenJoin:
		a.UnevenRanks = policy
	default:
		return fmt.Errorf("--uneven-ranks: found %q, expected pad (repeat the epoch's first rows), drop (leave the last rows out) or join (ranks without rows take part without any)", policy)
	}
	return nil
}

// validateUneven refuses two ways at once of dealing with an epoch's last rows.
func (a *Arguments) validateUneven(refuse func(name string, found any, expected string)) {
	switch {
	case !slices.Contains([]string{unevenAsTrainer, unevenDrop, unevenJoin}, a.UnevenRanks):
		refuse("uneven_ranks", a.UnevenRanks, "one of trainer (as dataloader_drop_last and even_batches say), drop, join")
	case a.joins() && (a.DataloaderDropLast || a.DispatchesBatches()):
		refuse("uneven_ranks", "join with dataloader_drop_last or accelerator_config.dispatch_batches", "one way to deal with an epoch's last, short round")
	}
}

// DispatchesBatches tells whether rank 0 deals out the rows of a last, short round.
func (a *Arguments) DispatchesBatches() bool {
	return a.DispatchBatches != nil && *a.DispatchBatches
}

// saveTotalLimit is how many checkpoints to keep; 0 is all.
func (a *Arguments) saveTotalLimit() int {
	if a.SaveTotalLimit == nil {
		return 0
	}
	return int(max(0, *a.SaveTotalLimit))
}

// changing gives, for the Trainer's arguments that would change the numbers and
// that Rejoin does not have, the values that leave them off. One that is on is
// refused. Those of rounding change numbers by rounding only and are said; all
// others of the Trainer's arguments are inert: they change nothing here.
var changing = map[string][]any{
	"label_smoothing_factor":                  {0.0},
	"neftune_noise_alpha":                     {nil},
	"train_sampling_strategy":                 {"random"},
	"group_by_length":                         {false},
	"auto_find_batch_size":                    {false},
	"ignore_data_skip":                        {false},
	"deepspeed":                               {nil},
	"optim_target_modules":                    {nil},
	"accelerator_config.use_seedable_sampler": {true},
}

// rounding are the Trainer's arguments under which it computes in another
// precision, or in another order, than Rejoin's float32.
var rounding = map[string]string{
	"bf16": "in bfloat16", "fp16": "in float16", "tf32": "in TF32", "torch_compile": "through torch.compile",
	"fsdp": "sharded by FSDP", "use_liger_kernel": "with Liger kernels",
}

// roundingNotes says how the run whose arguments these are computed otherwise.
func roundingNotes(values map[string]any) (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(rounding)) {
		switch v := values[name].(type) {
		case nil:
		case bool:
			if v {
				notes = append(notes, fmt.Sprintf("%s: the run computed %s; Rejoin computes in float32, so numbers differ in rounding", name, rounding[name]))
			}
		case []any:
			if len(v) > 0 {
				notes = append(notes, fmt.Sprintf("%s: the run was %s; here every rank holds the whole model", name, rounding[name]))
			}
		}
	}
	return notes
}

// inert tells the Trainer's arguments that have no effect here.
func inert(name string) bool {
	if _, own := argumentFields[name]; own {
		return false
	}
	_, refused := changing[name]
	_, known := hf.DefaultArguments()[name]
	return known && !refused
}

// limits keep counts far from overflow, and one micro-batch within memory.
var limits = map[string]float64{
	"per_device_train_batch_size": 1 << 20, "gradient_accumulation_steps": 1 << 20, "num_train_epochs": 1 << 24,
	"max_steps": 1 << 40, "warmup_steps": 1 << 40, "logging_steps": 1 << 40, "save_steps": 1 << 40,
}

// Validate reports every value that cannot be trained with, at once.
func (a *Arguments) Validate() error {
	var errs []error
	refuse := func(name string, found any, expected string) {
		errs = append(errs, &ArgumentError{Name: name, Found: fmt.Sprint(found), Expected: expected})
	}
	positive := func(name string, v float64) {
		if !(v > 0) || math.IsInf(v, 0) {
			refuse(name, v, "a number above 0")
		}
	}
	notNegative := func(name string, v float64) {
		if !(v >= 0) || math.IsInf(v, 0) {
			refuse(name, v, "0 or more")
		}
	}
	oneOf := func(name, v string, choices ...string) {
		if !slices.Contains(choices, v) {
			refuse(name, v, "one of "+strings.Join(choices, ", "))
		}
	}
	positive("per_device_train_batch_size", float64(a.PerDeviceTrainBatchSize))
	positive("gradient_accumulation_steps", float64(a.GradientAccumulationSteps))
	for name, v := range map[string]float64{
		"per_device_train_batch_size": float64(a.PerDeviceTrainBatchSize), "gradient_accumulation_steps": float64(a.GradientAccumulationSteps),
		"num_train_epochs": a.NumTrainEpochs, "max_steps": float64(a.MaxSteps), "warmup_steps": a.WarmupSteps,
		"logging_steps": a.LoggingSteps, "save_steps": a.SaveSteps,
	} {
		if limit := limits[name]; v > limit {
			refuse(name, v, fmt.Sprintf("at most %.0f", limit))
		}
	}
	if a.MaxSteps <= 0 {
		positive("num_train_epochs", a.NumTrainEpochs)
	}
	notNegative("learning_rate", a.LearningRate)
	notNegative("weight_decay", a.WeightDecay)
	notNegative("adam_epsilon", a.AdamEpsilon)
	notNegative("max_grad_norm", a.MaxGradNorm)
	notNegative("warmup_steps", a.WarmupSteps)
	for name, beta := range map[string]float64{"adam_beta1": a.AdamBeta1, "adam_beta2": a.AdamBeta2} {
		if !(beta >= 0 && beta < 1) {
			refuse(name, beta, "at least 0 and below 1")
		}
	}
	oneOf("optim", a.Optim, optimizerNames...)
	if _, err := a.optimizerOptions(); err != nil {
		errs = append(errs, err)
	}
	a.validateUneven(refuse)
	oneOf("logging_strategy", a.LoggingStrategy, "no", "steps", "epoch")
	oneOf("save_strategy", a.SaveStrategy, "no", "steps", "epoch", "best")
	a.validateScheduler(refuse)
	a.validateEvaluation(refuse)
	if a.LoggingStrategy == "steps" {
		positive("logging_steps", a.LoggingSteps)
	}
	if a.SaveStrategy == "steps" {
		positive("save_steps", a.SaveSteps)
	}
	slices.SortFunc(errs, func(x, y error) int { return strings.Compare(x.Error(), y.Error()) })
	return errors.Join(errs...)
}

// ArgumentError names a training argument whose value cannot be used.
type ArgumentError struct {
	Name, Found, Expected string
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("training argument %s: found %s, expected %s", e.Name, e.Found, e.Expected)
}
