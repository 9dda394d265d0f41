package trainbench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rejoin/ckpt/safetensors"
	"rejoin/tensor"
)

// ours is `launch train` on generated rows.
func (o Options) ours(dir string) (*racer, error) {
	rows, model := filepath.Join(dir, "rows.safetensors"), filepath.Join(dir, "model.yaml")
	if err := errors.Join(o.writeRows(rows), os.WriteFile(model, []byte(o.modelYAML()), 0o666)); err != nil {
		return nil, err
	}
	return &racer{name: "launch train", command: func(steps int) []string {
		return []string{
			o.Launch, "--nproc", strconv.Itoa(o.WorldSize), "train", "--data", rows, "--model", model, "--output-dir", filepath.Join(dir, "out"),
			"--set", "per_device_train_batch_size=" + strconv.Itoa(o.BatchSize), "--max-steps", strconv.Itoa(steps),
			"--set", "save_strategy=no", "--set", "logging_strategy=no",
		}
	}}, nil
}

// modelYAML describes the stack of the widths.
func (o Options) modelYAML() string {
	var b strings.Builder
	b.WriteString("layers:\n")
	for i, in := range o.Widths[:len(o.Widths)-1] {
		if i > 0 {
			b.WriteString("  - relu\n")
		}
		fmt.Fprintf(&b, "  - {linear: [%d, %d], name: \"%d\"}\n", in, o.Widths[i+1], 2*i)
	}
	b.WriteString("loss: cross_entropy\ninput: x\ntarget: label\n")
	return b.String()
}

// writeRows writes 16 batches for every worker: random inputs and classes.
func (o Options) writeRows(path string) error {
	const seed = 1
	rows, in, classes := 16*o.BatchSize*o.WorldSize, o.Widths[0], o.Widths[len(o.Widths)-1]
	random := rand.New(rand.NewPCG(seed, seed))
	x, label := make([]float32, rows*in), make([]byte, 0, 8*rows)
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	for range rows {
		label = binary.LittleEndian.AppendUint64(label, random.Uint64N(uint64(classes)))
	}
	sd := tensor.NewStateDict()
	sd.Set("x", tensor.FromFloat32(x, rows, in))
	sd.Set("label", &tensor.Tensor{DType: tensor.Int64, Shape: []int{rows}, Stride: []int{1}, Storage: &tensor.Storage{Data: label}})
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(safetensors.Write(f, sd, nil), f.Close())
}
