package hf

import "rejoin/pyobj"

// An argumentField is one attribute of a pickled object: its name, its default
// as a plain value, and the class its value has in Python.
type argumentField struct {
	name  string
	value any
	class *argumentClass // nil for a plain value
}

// An argumentClass is an enum (values), an object of attributes (fields), or,
// with neither, a torch.device.
type argumentClass struct {
	global pyobj.Global
	values []string
	fields []argumentField
}

const (
	trainerUtils = "transformers.trainer_utils"
	trainingArgs = "transformers.training_args"
)

var (
	trainingArguments = pyobj.Global{Module: trainingArgs, Name: "TrainingArguments"}

	intervalStrategy = &argumentClass{
		global: pyobj.Global{Module: trainerUtils, Name: "IntervalStrategy"},
		values: []string{"no", "steps", "epoch"},
	}
	saveStrategy = &argumentClass{
		global: pyobj.Global{Module: trainerUtils, Name: "SaveStrategy"},
		values: []string{"no", "steps", "epoch", "best"},
	}
	hubStrategy = &argumentClass{
		global: pyobj.Global{Module: trainerUtils, Name: "HubStrategy"},
		values: []string{"end", "every_save", "checkpoint", "all_checkpoints"},
	}
	schedulerType = &argumentClass{
		global: pyobj.Global{Module: trainerUtils, Name: "SchedulerType"},
		values: []string{
			"linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup", "inverse_sqrt",
			"reduce_lr_on_plateau", "cosine_with_min_lr", "cosine_warmup_with_min_lr", "warmup_stable_decay",
		},
	}
	optimizerNames = &argumentClass{
		global: pyobj.Global{Module: trainingArgs, Name: "OptimizerNames"},
		values: []string{
			"adamw_torch", "adamw_torch_fused", "adamw_torch_xla", "adamw_torch_npu_fused", "adafactor", "adamw_anyprecision",
			"adamw_torch_4bit", "adamw_torch_8bit", "ademamix", "sgd", "adagrad", "adamw_bnb_8bit", "adamw_8bit", "ademamix_8bit",
			"lion_8bit", "lion_32bit", "paged_adamw_32bit", "paged_adamw_8bit", "paged_ademamix_32bit", "paged_ademamix_8bit",
			"paged_lion_32bit", "paged_lion_8bit", "rmsprop", "rmsprop_bnb", "rmsprop_bnb_8bit", "rmsprop_bnb_32bit",
			"galore_adamw", "galore_adamw_8bit", "galore_adafactor", "galore_adamw_layerwise", "galore_adamw_8bit_layerwise",
			"galore_adafactor_layerwise", "lomo", "adalomo", "grokadamw", "schedule_free_radam", "schedule_free_adamw",
			"schedule_free_sgd", "apollo_adamw", "apollo_adamw_layerwise", "stable_adamw",
		},
	}
	distributedType = &argumentClass{
		global: pyobj.Global{Module: "accelerate.utils.dataclasses", Name: "DistributedType"},
		values: []string{
			"NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU", "DEEPSPEED", "FSDP",
			"XLA", "MEGATRON_LM", "MULTI_HPU", "MULTI_NEURON",
		},
	}
	torchDevice = &argumentClass{}

	acceleratorConfig = &argumentClass{
		global: pyobj.Global{Module: "transformers.trainer_pt_utils", Name: "AcceleratorConfig"},
		fields: []argumentField{
			{"split_batches", false, nil},
			{"dispatch_batches", nil, nil},
			{"even_batches", true, nil},
			{"use_seedable_sampler", true, nil},
			{"non_blocking", false, nil},
			{"gradient_accumulation_kwargs", nil, nil},
		},
	}
	partialState = &argumentClass{
		global: pyobj.Global{Module: "accelerate.state", Name: "PartialState"},
		fields: []argumentField{
			{"_cpu", true, nil},
			{"backend", "gloo", nil},
			{"device", "cpu:0", torchDevice},
			{"debug", false, nil},
			{"distributed_type", "MULTI_CPU", distributedType},
			{"num_processes", int64(1), nil},
			{"process_index", int64(0), nil},
			{"local_process_index", int64(0), nil},
			{"fork_launched", false, nil},
		},
	}
)

// argumentTable are the attributes of TrainingArguments in the order in which
// transformers 5.12 pickles them, with its defaults for training on CPUs under
// torchrun and gloo, without progress bars and reports.
var argumentTable = []argumentField{
	{"output_dir", "trainer_output", nil},
	{"per_device_train_batch_size", int64(8), nil},
	{"num_train_epochs", 3.0, nil},
	{"max_steps", int64(-1), nil},
	{"learning_rate", 5e-05, nil},
	{"lr_scheduler_type", "linear", schedulerType},
	{"lr_scheduler_kwargs", nil, nil},
	{"warmup_steps", int64(0), nil},
	{"optim", "adamw_torch_fused", optimizerNames},
	{"optim_args", nil, nil},
	{"weight_decay", 0.0, nil},
	{"adam_beta1", 0.9, nil},
	{"adam_beta2", 0.999, nil},
	{"adam_epsilon", 1e-08, nil},
	{"optim_target_modules", nil, nil},
	{"gradient_accumulation_steps", int64(1), nil},
	{"average_tokens_across_devices", true, nil},
	{"max_grad_norm", 1.0, nil},
	{"label_smoothing_factor", 0.0, nil},
	{"bf16", false, nil},
	{"fp16", false, nil},
	{"bf16_full_eval", false, nil},
	{"fp16_full_eval", false, nil},
	{"tf32", nil, nil},
	{"gradient_checkpointing", false, nil},
	{"gradient_checkpointing_kwargs", nil, nil},
	{"torch_compile", false, nil},
	{"torch_compile_backend", nil, nil},
	{"torch_compile_mode", nil, nil},
	{"use_liger_kernel", false, nil},
	{"liger_kernel_config", nil, nil},
	{"use_cache", false, nil},
	{"neftune_noise_alpha", nil, nil},
	{"torch_empty_cache_steps", nil, nil},
	{"auto_find_batch_size", false, nil},
	{"logging_strategy", "steps", intervalStrategy},
	{"logging_steps", int64(500), nil},
	{"logging_first_step", false, nil},
	{"log_on_each_node", true, nil},
	{"logging_nan_inf_filter", true, nil},
	{"include_num_input_tokens_seen", "no", nil},
	{"log_level", "passive", nil},
	{"log_level_replica", "warning", nil},
	{"disable_tqdm", true, nil},
	{"report_to", []any{}, nil},
	{"run_name", nil, nil},
	{"project", "huggingface", nil},
	{"trackio_space_id", nil, nil},
	{"trackio_bucket_id", nil, nil},
	{"trackio_static_space_id", nil, nil},
	{"eval_strategy", "no", intervalStrategy},
	{"eval_steps", nil, nil},
	{"eval_delay", int64(0), nil},
	{"per_device_eval_batch_size", int64(8), nil},
	{"prediction_loss_only", false, nil},
	{"eval_on_start", false, nil},
	{"eval_do_concat_batches", true, nil},
	{"eval_use_gather_object", false, nil},
	{"eval_accumulation_steps", nil, nil},
	{"include_for_metrics", []any{}, nil},
	{"batch_eval_metrics", false, nil},
	{"save_only_model", false, nil},
	{"save_strategy", "steps", saveStrategy},
	{"save_steps", int64(500), nil},
	{"save_on_each_node", false, nil},
	{"save_total_limit", nil, nil},
	{"enable_jit_checkpoint", false, nil},
	{"push_to_hub", false, nil},
	{"hub_token", nil, nil},
	{"hub_private_repo", nil, nil},
	{"hub_model_id", nil, nil},
	{"hub_strategy", "every_save", hubStrategy},
	{"hub_always_push", false, nil},
	{"hub_revision", nil, nil},
	{"load_best_model_at_end", false, nil},
	{"metric_for_best_model", nil, nil},
	{"greater_is_better", nil, nil},
	{"ignore_data_skip", false, nil},
	{"restore_callback_states_from_checkpoint", false, nil},
	{"full_determinism", false, nil},
	{"seed", int64(42), nil},
	{"data_seed", nil, nil},
	{"use_cpu", true, nil},
	{"accelerator_config", nil, acceleratorConfig},
	{"parallelism_config", nil, nil},
	{"dataloader_drop_last", false, nil},
	{"dataloader_num_workers", int64(0), nil},
	{"dataloader_pin_memory", false, nil},
	{"dataloader_persistent_workers", false, nil},
	{"dataloader_prefetch_factor", nil, nil},
	{"remove_unused_columns", true, nil},
	{"label_names", nil, nil},
	{"train_sampling_strategy", "random", nil},
	{"length_column_name", "length", nil},
	{"ddp_find_unused_parameters", nil, nil},
	{"ddp_bucket_cap_mb", nil, nil},
	{"ddp_broadcast_buffers", nil, nil},
	{"ddp_static_graph", nil, nil},
	{"ddp_backend", "gloo", nil},
	{"ddp_timeout", int64(1800), nil},
	{"fsdp", nil, nil},
	{"fsdp_config", nil, nil},
	{"deepspeed", nil, nil},
	{"debug", []any{}, nil},
	{"skip_memory_metrics", true, nil},
	{"do_train", false, nil},
	{"do_eval", false, nil},
	{"do_predict", false, nil},
	{"resume_from_checkpoint", nil, nil},
	{"warmup_ratio", nil, nil},
	{"logging_dir", nil, nil},
	{"local_rank", int64(-1), nil},
	{"mixed_precision", "no", nil},
	{"distributed_state", nil, partialState},
	{"_n_gpu", int64(0), nil},
	{"_setup_devices", "cpu:0", torchDevice},
	{"fsdp_plugin_args", nil, nil},
	{"deepspeed_plugin", nil, nil},
}
