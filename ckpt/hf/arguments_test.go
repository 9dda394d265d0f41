package hf

import (
	"bytes"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

func TestTrainingArgsWrittenAsFound(t *testing.T) {
	files, err := filepath.Glob("testdata/*/checkpoint-*/" + TrainingArgsFile)
	if err != nil || len(files) < 5 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, path := range files {
		want := readBytes(t, path)
		args, err := DecodeTrainingArgs(want)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		got, err := EncodeTrainingArgs(args)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes written, %d found", path, len(got), len(want))
		}
	}
}

func TestEncodeTrainingArgs(t *testing.T) {
	args := Arguments{
		"learning_rate": 1e-3, "lr_scheduler_type": "cosine", "label_names": []any{"y"}, "seed": 7,
		"accelerator_config": map[string]any{"split_batches": true}, "lr_scheduler_kwargs": map[string]any{"num_cycles": 0.5},
		"my_own": []any{1, nil, new(big.Int).Lsh(big.NewInt(1), 80)},
	}
	args.SetWorldSize(4)
	data, err := EncodeTrainingArgs(args)
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeTrainingArgs(data)
	if err != nil {
		t.Fatal(err)
	}
	copied := args.Clone()
	copied.SetWorldSize(5)
	if args.WorldSize() != 4 || copied.WorldSize() != 5 {
		t.Errorf("world sizes %d and %d: a copy and its original share", args.WorldSize(), copied.WorldSize())
	}
	if back.WorldSize() != 4 || len(back) != len(argumentTable)+1 {
		t.Errorf("world size %d, %d arguments", back.WorldSize(), len(back))
	}
	config, err := back.Map("accelerator_config")
	if err != nil || config["split_batches"] != true || config["even_batches"] != true {
		t.Errorf("accelerator_config is %v, %v", config, err)
	}
	for name, want := range map[string]any{"learning_rate": 1e-3, "seed": int64(7), "adam_beta2": 0.999, "optim": "adamw_torch_fused"} {
		if back[name] != want {
			t.Errorf("%s is %v, want %v", name, back[name], want)
		}
	}
}

func TestEncodeTrainingArgsRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"lr_scheduler_type", "cosin", "lr_scheduler_type: expected one of linear, cosine"},
		{"optim", 3, "optim: expected a str, found int 3"},
		{"save_strategy", nil, "save_strategy: expected a str, found None"},
		{"accelerator_config", "x.json", "accelerator_config: expected a dict, found str"},
		{"learning_rate", struct{}{}, "learning_rate: expected a plain value"},
		{"label_names", []any{"y", func() {}}, "label_names[1]: expected a plain value"},
		{"fsdp_config", map[string]any{"a": 1i}, `fsdp_config["a"]: expected a plain value`},
		{"distributed_state", map[string]any{"distributed_type": "X"}, "distributed_type: expected one of NO"},
		{"my_own", make(chan int), "my_own: expected a plain value"},
	} {
		_, err := EncodeTrainingArgs(Arguments{c.name: c.value})
		if bad := (*ArgumentError)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %v: %v, want … %s", c.name, c.value, err, c.want)
		}
	}
}

func TestArgumentAccess(t *testing.T) {
	a := Arguments{"i": int64(3), "f": 2.5, "b": true, "s": "x", "none": nil, "whole": 4.0}
	if v, err := a.Int("i", 0); v != 3 || err != nil {
		t.Error(v, err)
	}
	if v, err := a.Int("whole", 0); v != 4 || err != nil {
		t.Error(v, err)
	}
	if v, err := a.Float("i", 0); v != 3 || err != nil {
		t.Error(v, err)
	}
	if v, err := a.Bool("b", false); !v || err != nil {
		t.Error(v, err)
	}
	if v, err := a.String("none", "fallback"); v != "fallback" || err != nil {
		t.Error(v, err)
	}
	for name, err := range map[string]error{
		"Int":    second(a.Int("f", 0)),
		"Float":  second(a.Float("s", 0)),
		"Bool":   second(a.Bool("i", false)),
		"String": second(a.String("b", "")),
		"Map":    second(a.Map("s")),
	} {
		if bad := (*ArgumentError)(nil); !errors.As(err, &bad) {
			t.Errorf("%s of another type: %v", name, err)
		}
	}
	for _, a := range []Arguments{nil, {"distributed_state": "x"}, {"distributed_state": map[string]any{"num_processes": "2"}}, {"distributed_state": map[string]any{"num_processes": int64(-2)}}} {
		if n := a.WorldSize(); n != 0 {
			t.Errorf("world size of %v is %d", a, n)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Objects that share others make a small pickle a huge tree: it is refused, not expanded.
func TestDecodeTrainingArgsIsBounded(t *testing.T) {
	wide := &pyobj.List{Items: []any{int64(1)}}
	for range 24 {
		wide = &pyobj.List{Items: []any{wide, wide}}
	}
	deep := any(int64(1))
	for range 60 {
		deep = &pyobj.Tuple{Items: []any{deep}}
	}
	for name, v := range map[string]any{"wide": wide, "deep": deep} {
		object := &pyobj.Object{
			Class: trainingArguments, Args: &pyobj.Tuple{},
			State: pyobj.NewDict("per_device_train_batch_size", 1, "x", v),
		}
		p := plainer{left: maxArgumentValues}
		if _, err := p.object(object, 0); !errors.Is(err, errTooManyArguments) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlainValues(t *testing.T) {
	enum := &pyobj.Object{Class: pyobj.Global{Module: "m", Name: "E"}, Args: &pyobj.Tuple{Items: []any{"v"}}, Called: true}
	for _, c := range []struct{ in, want any }{
		{enum, "v"},
		{&pyobj.Object{Class: pyobj.Global{Module: "m", Name: "C"}}, "m.C"},
		{pyobj.Global{Module: "m", Name: "f"}, "m.f"},
		{pyobj.Device("cuda:1"), "cuda:1"},
		{pyobj.Bytes("ab"), "ab"},
		{tensor.BFloat16, "bfloat16"},
		{tensor.FromFloat32([]float32{1}, 1), "Tensor"},
		{&pyobj.NumpyScalar{Dtype: "f8", Data: []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f}}, 1.5},
	} {
		p := plainer{left: 10}
		if got, err := p.value(c.in, 0); got != c.want || err != nil {
			t.Errorf("%v becomes %v, %v, want %v", c.in, got, err, c.want)
		}
	}
	p := plainer{left: 10}
	d, err := p.dict(pyobj.NewDict(1, &pyobj.Set{Items: []any{"a"}}, "t", &pyobj.Tuple{}), 0)
	if err != nil || len(d) != 2 || d["1"].([]any)[0] != "a" {
		t.Errorf("%v, %v", d, err)
	}
}

func TestDecodeTrainingArgsRefuses(t *testing.T) {
	class := pyobj.Global{Module: "a", Name: "b"}
	for want, v := range map[string]any{
		"expected TrainingArguments, found list":              &pyobj.List{},
		"expected the attributes of a.b, found None":          &pyobj.Object{Class: class, Args: &pyobj.Tuple{Items: []any{"true"}}, Called: true},
		"a.b is no TrainingArguments: it has no per_device_t": &pyobj.Object{Class: class, Args: &pyobj.Tuple{}, State: pyobj.NewDict("seed", 1)},
	} {
		var out bytes.Buffer
		if err := torchfile.Write(&out, "training_args", v); err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeTrainingArgs(out.Bytes()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want … %s", err, want)
		}
	}
}

func FuzzDecodeTrainingArgs(f *testing.F) {
	data, err := os.ReadFile("testdata/digits-w1/checkpoint-3/" + TrainingArgsFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		args, err := DecodeTrainingArgs(data)
		if err != nil {
			return
		}
		if _, ok := args["per_device_train_batch_size"]; !ok {
			t.Errorf("accepted %v", args)
		}
	})
}
