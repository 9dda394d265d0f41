package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	step2     = "testdata/regression-w2/checkpoint-2"
	step4     = "testdata/regression-w2/checkpoint-4"
	regModel  = "testdata/regression.yaml"
	ddpFile   = "ckpt/inspect/testdata/raw-ddp-w2/model_dp2_cuda.pth"
	viewsFile = "ckpt/inspect/testdata/torch-files/views.pt"
)

func TestCkptExitCodes(t *testing.T) {
	damaged := filepath.Join(t.TempDir(), "cut.pt")
	raw, err := os.ReadFile(filepath.Join("..", "..", viewsFile))
	if err == nil {
		err = os.WriteFile(damaged, raw[:900], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"ckpt", 0, "launch ckpt [command]"},
		{"ckpt inspect " + step2, 0, "optimizer: AdamW; 2 parameters with exp_avg, exp_avg_sq; step 2"},
		{"ckpt inspect testdata/regression-w2", 0, "is the newest complete checkpoint"},
		{"ckpt inspect " + damaged, 1, "truncated"},
		{"ckpt inspect", 2, "inspect takes one checkpoint, found 0 arguments"},
		{"ckpt diff " + step2 + " " + step2, 0, "equal: "},
		{"ckpt diff " + step2 + " " + step4, 1, "weights: fc.weight"},
		{"ckpt diff " + step2 + " " + damaged, 1, "truncated"},
		{"ckpt diff --rtol=-1 a b", 2, "--atol and --rtol"},
		{"ckpt diff --atol 10 --rtol 10 " + step2 + "/model.safetensors " + step4 + "/model.safetensors", 0, "equal: "},
		{"ckpt verify --finite --model " + regModel + " " + step2, 0, "a forward pass with a dummy input"},
		{"ckpt verify --model testdata/digits-mlp.yaml " + step2, 1, "no key of the file is a parameter of the model"},
		{"ckpt verify " + damaged, 1, ": 1 problem\n"},
		{"ckpt verify --model gone.yaml " + step2, 1, "gone.yaml"},
		{"ckpt verify a b", 2, "found 2 arguments"},
		{"ckpt convert --dtype int8 a b.pt", 2, "expected one of float64"},
		{"ckpt convert --to numpy a b", 2, "expected torch or safetensors"},
		{"ckpt convert --max-shard-size huge a b", 2, "is no size"},
		{"ckpt convert --map-location cuda=1=2,, a b.pt", 2, "--map-location"},
		{"ckpt convert --location-rules mine a b.pt", 2, "--location-rules"},
		{"ckpt convert " + viewsFile + " " + out + "/x.unknown", 2, "does not tell the format"},
		{"ckpt convert --map-location none --location-rules torch " + ddpFile + " " + out + "/x.pt", 1, "Attempting to deserialize object on a CUDA device"},
		{"ckpt convert --map-location cuda:0=cpu,cuda:1=cpu --location-rules torch " + ddpFile + " " + out + "/y.pt", 0, "tagged cpu"},
		{"ckpt nothing", 2, "nothing"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			run(t, strings.Fields(tc.args)...).wants(t, tc.code, tc.says)
		})
	}
}

// The words: key, dtype, shape, stride, storage_offset, device, sha256.
func TestCkptInspectJSON(t *testing.T) {
	e := run(t, "ckpt", "inspect", "--json", "--hash", viewsFile)
	e.wants(t, 0)
	var report struct {
		Tensors []map[string]any `json:"tensors"`
	}
	if err := json.Unmarshal([]byte(e.stdout), &report); err != nil || len(report.Tensors) != 7 {
		t.Fatalf("%v:\n%s", err, e.stdout)
	}
	for _, key := range []string{"key", "dtype", "shape", "stride", "storage_offset", "device", "sha256"} {
		if _, ok := report.Tensors[3][key]; !ok {
			t.Errorf("no %q in %v", key, report.Tensors[3])
		}
	}
	for _, command := range []string{"diff " + step2 + " " + step4, "verify " + step2} {
		e := run(t, append([]string{"ckpt"}, strings.Fields(command+" --json")...)...)
		if !json.Valid([]byte(e.stdout)) || strings.Contains(e.stdout, "\x1b") {
			t.Errorf("%s printed no JSON:\n%s", command, e.stdout)
		}
	}
}

// The file of the title: saved by two GPUs under DDP, served on a CPU.
func TestCkptConvertForDeployment(t *testing.T) {
	dir := t.TempDir()
	raw, err := os.ReadFile(filepath.Join("..", "..", ddpFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "model_dp2_cuda.pth"), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(dir, "model_dp2_cuda.pth"), filepath.Join(dir, "model_cpu.safetensors")
	run(t, "ckpt", "convert", "--model-only", in).wants(t, 0, "wrote "+out, `the prefix "module." was taken off all 4 keys`)
	run(t, "ckpt", "convert", "--model-only", in).wants(t, 1, "is there already", "--force")
	run(t, "ckpt", "convert", "--model-only", "--force", "--json", in).wants(t, 0, `"files"`)
	run(t, "ckpt", "diff", "--peel", in, out).wants(t, 0, "equal: 4 tensors")
	run(t, "ckpt", "diff", in, out).wants(t, 1, "--peel compares without it")
	half := filepath.Join(dir, "half")
	run(t, "ckpt", "convert", "--dtype", "float16", "--max-shard-size", "2kB", out, half).wants(t, 0, "float32 → float16 rounds: 4 tensors", "model.safetensors.index.json")
	run(t, "ckpt", "diff", "--rtol", "1e-3", out, filepath.Join(half, "model.safetensors.index.json")).wants(t, 1, "float32 ≠ float16, equal values")
	yaml := filepath.Join(dir, "model.yaml")
	text := "layers:\n  - {linear: [64, 24], name: backbone.0}\n  - relu\n  - {linear: [24, 10], name: backbone.2}\nloss: cross_entropy\ninput: x\ntarget: label\n"
	if err := os.WriteFile(yaml, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "ckpt", "verify", "--finite", "--model", yaml, out).wants(t, 0, "every element of 4 tensors is finite", "a forward pass")
}
