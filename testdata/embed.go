// Package testdata carries the fixtures that `launch harness` takes along, so
// that it runs anywhere; README.md says where they are from.
package testdata

import "embed"

// Fixtures are the files by their names here.
//
//go:embed regression.jsonl regression.yaml regression-train.yaml regression-w2
//go:embed digits.jsonl digits-small.yaml digits-mlp.yaml digits-mlp-train.yaml
//go:embed digits-mlp-w2/checkpoint-4 digits-mlp-w2/checkpoint-8 digits-mlp-w2/checkpoint-12 digits-mlp-w2/trace-rank0.json digits-mlp-w2/trace-rank1.json
//go:embed digits-w1/checkpoint-6 digits-w1/checkpoint-9 digits-w1/trace-rank0.json
var Fixtures embed.FS
