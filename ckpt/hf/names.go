package hf

import (
	"fmt"
	"regexp"
	"strconv"
)

// The files of a checkpoint directory, as transformers 5 names them.
const (
	SafeWeightsFile      = "model.safetensors"
	SafeWeightsIndexFile = "model.safetensors.index.json"
	BinWeightsFile       = "pytorch_model.bin"
	BinWeightsIndexFile  = "pytorch_model.bin.index.json"
	OptimizerFile        = "optimizer.pt"
	SchedulerFile        = "scheduler.pt"
	StateFile            = "trainer_state.json"
	TrainingArgsFile     = "training_args.bin"
	ConfigFile           = "config.json"
	GenerationConfigFile = "generation_config.json"
	SoleRandomStateFile  = "rng_state.pth" // at world size 1
)

// The files that Rejoin adds.
const (
	ManifestFile = "manifest.json"
	ModelFile    = "model.yaml"
)

// weightsFiles are the forms that weights take, in the order in which the
// Trainer looks for them.
var weightsFiles = []struct {
	name  string
	index bool // the file names the shards that hold the weights
	safe  bool // safetensors, not a pickle
}{
	{SafeWeightsFile, false, true},
	{SafeWeightsIndexFile, true, true},
	{BinWeightsFile, false, false},
	{BinWeightsIndexFile, true, false},
}

// ResumeFiles are the files that every rank reads to resume, besides the
// weights and its own random state. Those marked required make a checkpoint complete.
var ResumeFiles = []struct {
	Name     string
	Required bool
}{
	{OptimizerFile, true},
	{SchedulerFile, true},
	{StateFile, true},
	{TrainingArgsFile, false},
	{ConfigFile, false},
	{ModelFile, false},
	{ManifestFile, false},
}

// companionFiles describe the model and its text processing. Resume carries
// them from checkpoint to checkpoint as they are.
var companionFiles = []string{
	ConfigFile, GenerationConfigFile, ModelFile,
	"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json",
	"vocab.json", "vocab.txt", "merges.txt", "spiece.model", "sentencepiece.bpe.model",
	"chat_template.jinja", "chat_template.json",
	"preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json",
}

// RandomStateFile is the name of rank's random state in a run of worldSize ranks.
func RandomStateFile(rank, worldSize int) string {
	if worldSize <= 1 {
		return SoleRandomStateFile
	}
	return fmt.Sprintf("rng_state_%d.pth", rank)
}

// DirName is the name of the checkpoint directory of a step.
func DirName(step int) string { return fmt.Sprintf("checkpoint-%d", step) }

var (
	checkpointName = regexp.MustCompile(`^checkpoint-([0-9]+)$`)
	leftoverName   = regexp.MustCompile(`^\.?(tmp|displaced|removed)[-_.]?checkpoint-([0-9]+)`)
)

// StepOfName is the step in a checkpoint directory's base name, and false if
// the name is not one of a checkpoint.
func StepOfName(base string) (int, bool) {
	return numberIn(checkpointName, base, 1)
}

func numberIn(pattern *regexp.Regexp, base string, group int) (int, bool) {
	m := pattern.FindStringSubmatch(base)
	if m == nil {
		return 0, false
	}
	step, err := strconv.Atoi(m[group])
	return step, err == nil
}
