package hf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

func TestReadTrainerCheckpoint(t *testing.T) {
	c := open(t, "testdata/regression-w2/checkpoint-2")
	if c.Step() != 2 || c.Dir() != "testdata/regression-w2/checkpoint-2" {
		t.Errorf("step %d of %s", c.Step(), c.Dir())
	}
	weights, err := c.Weights()
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(weights.Names())), []string{"fc.bias", "fc.weight"}) {
		t.Fatalf("weights %v, %v", weights, err)
	}
	if err := weights.ReadFloat32(make([]float32, 10), "fc.weight", []int{1, 10}); err != nil {
		t.Error(err)
	}
	optimizer, err := c.Optimizer()
	if err != nil {
		t.Fatal(err)
	}
	groups, _ := optimizer.Get("param_groups")
	items, err := pyobj.AsItems(groups)
	if err != nil || len(items) != 2 {
		t.Fatalf("param_groups %v, %v", groups, err)
	}
	if lr, _ := items[0].(*pyobj.Dict).Get("lr"); lr != 0.006666666666666666 {
		t.Errorf("the next step's lr is %v", lr)
	}
	scheduler, err := c.Scheduler()
	if err != nil {
		t.Fatal(err)
	}
	if last, _ := scheduler.Get("last_epoch"); last != int64(2) {
		t.Errorf("last_epoch is %v", last)
	}
	if m, err := c.Manifest(); m != nil || err != nil {
		t.Errorf("a manifest out of nothing: %v, %v", m, err)
	}
	if companions, err := c.Companions(); len(companions) != 0 || err != nil {
		t.Errorf("companions out of nothing: %v, %v", companions, err)
	}
	if err := c.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "only a checkpoint that Rejoin wrote") {
		t.Errorf("Verify without a manifest: %v", err)
	}
	if err := Complete(c.Dir()); err != nil {
		t.Error(err)
	}
}

func TestCompanions(t *testing.T) {
	c := &Checkpoint{dir: "testdata/gpt2-sums-w2/checkpoint-4"}
	found, err := c.Companions()
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(found)); !slices.Equal(names, []string{ConfigFile, GenerationConfigFile}) {
		t.Errorf("companions are %v", names)
	}
	if !bytes.Contains(found[ConfigFile], []byte("GPT2LMHeadModel")) {
		t.Errorf("config.json is %s", found[ConfigFile])
	}
}

func TestMapLocationReachesTheOptimizerAlone(t *testing.T) {
	c, err := Open("testdata/regression-w2/checkpoint-2", Options{MapLocation: tensor.TorchLocation("cpu:0")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	refused := (*tensor.LocationError)(nil)
	if _, err := c.Optimizer(); !errors.As(err, &refused) || refused.Location != "cpu:0" {
		t.Errorf("optimizer: %v", err)
	} else if strings.Contains(err.Error(), "damaged") {
		t.Errorf("a refused location is called damage: %v", err)
	}
	if _, err := c.Weights(); err != nil {
		t.Errorf("weights: %v", err)
	}
	if _, err := c.Scheduler(); err != nil {
		t.Errorf("scheduler: %v", err)
	}
	if _, err := c.RandomState(1, 2); err != nil {
		t.Errorf("random state: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	writeBytes(t, file, []byte("x"))
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o777); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"):  "there is no such directory",
		filepath.Join(dir, "empty"): "the directory is empty",
		file:                        "it is a file",
		dir:                         "it holds none of a checkpoint's files",
		"testdata":                  "it holds none of a checkpoint's files",
	} {
		_, err := Open(path, Options{})
		if not := (*NotCheckpointError)(nil); !errors.As(err, &not) || not.Path != path || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s) = %v, want … %s", path, err, want)
		}
		if IsCheckpoint(path) {
			t.Errorf("%s is taken for a checkpoint", path)
		}
	}
	if !IsCheckpoint("testdata/regression-w2/checkpoint-2") {
		t.Error("a checkpoint is not recognised")
	}
}

// Every file, missing, empty, cut or of another kind, gives one error that
// names it and the next step.
func TestBrokenFiles(t *testing.T) {
	reads := map[string]func(c *Checkpoint) error{
		SafeWeightsFile:  func(c *Checkpoint) error { _, err := c.Weights(); return err },
		OptimizerFile:    func(c *Checkpoint) error { _, err := c.Optimizer(); return err },
		SchedulerFile:    func(c *Checkpoint) error { _, err := c.Scheduler(); return err },
		StateFile:        func(c *Checkpoint) error { _, err := c.State(); return err },
		TrainingArgsFile: func(c *Checkpoint) error { _, _, err := c.TrainingArgs(); return err },
		"rng_state_1.pth": func(c *Checkpoint) error {
			_, err := c.RandomState(1, 2)
			return err
		},
	}
	breaks := map[Problem]func(path string) error{
		Missing: os.Remove,
		Empty:   func(path string) error { return os.Truncate(path, 0) },
		Damaged: func(path string) error {
			info, err := os.Stat(path)
			return errors.Join(err, os.Truncate(path, info.Size()*3/4))
		},
	}
	for name, read := range reads {
		for problem, damage := range breaks {
			t.Run(fmt.Sprintf("%s %v", name, problem), func(t *testing.T) {
				dir := copyOf(t, "testdata/regression-w2/checkpoint-2", "checkpoint-2")
				if err := damage(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
				c := open(t, dir)
				checkFileProblem(t, read(c), filepath.Join(dir, name), problem)
				if c.Step() != 2 {
					t.Errorf("step is %d", c.Step())
				}
			})
		}
	}
}

func checkFileProblem(t *testing.T, err error, path string, problem Problem) {
	t.Helper()
	name := filepath.Base(path)
	if problem == Missing && name == TrainingArgsFile {
		if err != nil {
			t.Errorf("training arguments are not needed: %v", err)
		}
		return
	}
	if problem == Missing && strings.HasPrefix(name, "rng_state") {
		missing := (*MissingRandomStateError)(nil)
		if !errors.Is(err, ErrNoRandomState) || !errors.As(err, &missing) || missing.Rank != 1 || !slices.Equal(missing.Found, []string{"rng_state_0.pth"}) {
			t.Errorf("error is %v", err)
		}
		return
	}
	file := (*FileError)(nil)
	if !errors.As(err, &file) || file.Path != path || file.Problem != problem || file.Next == "" {
		t.Errorf("error is %#v: %v", err, err)
		return
	}
	if strings.Count(err.Error(), path) != 1 || strings.Contains(err.Error(), "\n") {
		t.Errorf("text is %v", err)
	}
}

func TestOtherKindsOfFiles(t *testing.T) {
	dir := copyOf(t, "testdata/regression-w2/checkpoint-2", "checkpoint-2")
	c := open(t, dir)
	write := func(name string, v any) {
		var out bytes.Buffer
		if err := torchfile.Write(&out, "x", v); err != nil {
			t.Fatal(err)
		}
		writeBytes(t, filepath.Join(dir, name), out.Bytes())
	}
	write(OptimizerFile, &pyobj.List{})
	write(TrainingArgsFile, pyobj.NewDict("seed", 1))
	write("rng_state_0.pth", pyobj.NewDict("cpu", tensor.FromFloat32(make([]float32, CPUStateSize), CPUStateSize)))
	write("rng_state_1.pth", pyobj.NewDict("python", nil))
	_, optimizerErr := c.Optimizer()
	_, _, argsErr := c.TrainingArgs()
	_, dtypeErr := c.RandomState(0, 2)
	_, keyErr := c.RandomState(1, 2)
	for want, err := range map[string]error{
		"expected a dict, found list":                  optimizerErr,
		"expected TrainingArguments, found dict":       argsErr,
		"expected uint8[5056], found float32[5056]":    dtypeErr,
		`rng_state_1.pth is damaged: key "cpu" is mis`: keyErr,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want … %s", err, want)
		}
	}
	if err := os.Remove(filepath.Join(dir, SchedulerFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, SchedulerFile), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Scheduler(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory for a file: %v", err)
	}
	if m := os.WriteFile(filepath.Join(dir, ManifestFile), []byte(`{"format": 9}`), 0o666); m != nil {
		t.Fatal(m)
	}
	newer := (*ManifestFormatError)(nil)
	if _, err := c.Manifest(); !errors.As(err, &newer) || newer.Found != 9 {
		t.Errorf("a newer manifest: %v", err)
	}
}

// writeShards splits two tensors over two files with an index, as save_pretrained does.
func writeShards(t *testing.T, dir, index string, safe bool) {
	t.Helper()
	names := map[string]string{"a": "model-00001-of-00002", "b": "model-00002-of-00002"}
	extension := map[bool]string{true: ".safetensors", false: ".bin"}[safe]
	for name, file := range names {
		weights := tensor.NewStateDict()
		data := tensor.FromFloat32([]float32{1, 2}, 2)
		weights.Set(name, data)
		var out bytes.Buffer
		err := error(nil)
		if safe {
			err = safetensors.Write(&out, weights, nil)
		} else {
			err = torchfile.Write(&out, file, pyobj.NewDict(name, data))
		}
		if err != nil {
			t.Fatal(err)
		}
		writeBytes(t, filepath.Join(dir, file+extension), out.Bytes())
	}
	text := fmt.Sprintf(`{"metadata": {"total_size": 16}, "weight_map": {"a": "%s%s", "b": "%s%s"}}`, names["a"], extension, names["b"], extension)
	writeBytes(t, filepath.Join(dir, index), []byte(text))
}

func TestShardedWeights(t *testing.T) {
	for index, safe := range map[string]bool{SafeWeightsIndexFile: true, BinWeightsIndexFile: false} {
		dir := t.TempDir()
		writeShards(t, dir, index, safe)
		c := open(t, dir)
		weights, err := c.Weights()
		if err != nil || !slices.Equal(weights.Names(), []string{"a", "b"}) {
			t.Fatalf("%s: %v, %v", index, weights, err)
		}
		if err := weights.ReadFloat32(make([]float32, 2), "b", []int{2}); err != nil {
			t.Error(err)
		}
		for change, want := range map[string]string{
			`{"weight_map": {"a": "../model.bin"}}`: "not the name of a file in the checkpoint",
			`{"weight_map": {"a": 1}}`:              "expected a file name, found int",
			`{"weight_map": {}}`:                    `key "weight_map"`,
			`[]`:                                    `key "weight_map"`,
			`{"weight_map"`:                         "line 1",
		} {
			writeBytes(t, filepath.Join(dir, index), []byte(change))
			if _, err := c.Weights(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %s: %v, want … %s", index, change, err, want)
			}
		}
	}
}

func TestShardsMustFitTheirIndex(t *testing.T) {
	dir := t.TempDir()
	writeShards(t, dir, SafeWeightsIndexFile, true)
	c := open(t, dir)
	for text, want := range map[string]string{
		`{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors"}}`: `"b" is missing`,
		`{"weight_map": {"c": "model-00001-of-00002.safetensors"}}`:                                          `holds "a"`,
		`{"weight_map": {"a": "model-00003-of-00002.safetensors"}}`:                                          "model-00003-of-00002.safetensors is missing",
	} {
		writeBytes(t, filepath.Join(dir, SafeWeightsIndexFile), []byte(text))
		_, err := c.Weights()
		if file := (*FileError)(nil); !errors.As(err, &file) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want … %s", text, err, want)
		}
	}
}

func TestBinWeights(t *testing.T) {
	dir := t.TempDir()
	c := &Checkpoint{dir: dir}
	defer c.Close()
	for want, v := range map[string]any{
		"":                                      pyobj.NewDict("fc.weight", &pyobj.Parameter{Data: tensor.FromFloat32([]float32{1}, 1)}),
		"expected a dict, found list":           &pyobj.List{},
		`key "a": expected a tensor, found int`: pyobj.NewDict("a", 1),
		"expected the name of a tensor, found int 1": pyobj.NewDict(1, tensor.FromFloat32([]float32{1}, 1)),
	} {
		var out bytes.Buffer
		if err := torchfile.Write(&out, "pytorch_model", v); err != nil {
			t.Fatal(err)
		}
		writeBytes(t, filepath.Join(dir, BinWeightsFile), out.Bytes())
		weights, err := c.Weights()
		if want == "" {
			if err != nil || weights.Len() != 1 {
				t.Errorf("%v, %v", weights, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want … %s", err, want)
		}
	}
}

func TestOtherFormatsAreNamed(t *testing.T) {
	for file, want := range map[string]string{
		"adapter_model.safetensors": "merge the adapter",
		"pytorch_model_fsdp.bin":    "FSDP",
		"unknown.bin":               SafeWeightsFile + " is missing",
	} {
		dir := t.TempDir()
		writeBytes(t, filepath.Join(dir, file), []byte("x"))
		c := &Checkpoint{dir: dir}
		if _, err := c.Weights(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want … %s", file, err, want)
		}
	}
}

func TestDigest(t *testing.T) {
	dir := copyOf(t, "testdata/regression-w2/checkpoint-2", "checkpoint-2")
	c := open(t, dir)
	digest := func() string {
		d, err := c.Digest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := digest()
	if again := digest(); again != before || len(before) != 64 {
		t.Fatalf("digests %s and %s", before, again)
	}
	if err := os.Remove(filepath.Join(dir, "rng_state_1.pth")); err != nil {
		t.Fatal(err)
	}
	writeBytes(t, filepath.Join(dir, "notes.txt"), []byte("x"))
	if digest() != before {
		t.Error("a file that ranks do not share changed the digest")
	}
	for _, name := range []string{SafeWeightsFile, OptimizerFile, SchedulerFile, StateFile, TrainingArgsFile} {
		path := filepath.Join(dir, name)
		data := readBytes(t, path)
		changed := bytes.Clone(data)
		changed[len(changed)/2] ^= 1
		writeBytes(t, path, changed)
		if digest() == before {
			t.Errorf("one bit of %s did not change the digest", name)
		}
		writeBytes(t, path, data)
	}
	if err := os.Remove(filepath.Join(dir, OptimizerFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Digest(t.Context()); err == nil || !strings.Contains(err.Error(), OptimizerFile+" is missing") {
		t.Errorf("Digest without the optimizer: %v", err)
	}
}

func TestDigestOfShards(t *testing.T) {
	dir := copyOf(t, "testdata/regression-w2/checkpoint-2", "checkpoint-2")
	if err := os.Remove(filepath.Join(dir, SafeWeightsFile)); err != nil {
		t.Fatal(err)
	}
	writeShards(t, dir, SafeWeightsIndexFile, true)
	c := open(t, dir)
	before, err := c.Digest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shard := filepath.Join(dir, "model-00002-of-00002.safetensors")
	writeBytes(t, shard, append(readBytes(t, shard), 0))
	if after, err := c.Digest(t.Context()); err != nil || after == before {
		t.Errorf("a changed shard: %v", err)
	}
}

func TestVerifyNamesEachBrokenFile(t *testing.T) {
	dir := filepath.Join(saved(t, 4, 1), "checkpoint-4")
	c := open(t, dir)
	flipped := readBytes(t, filepath.Join(dir, OptimizerFile))
	flipped[len(flipped)/2] ^= 1
	writeBytes(t, filepath.Join(dir, OptimizerFile), flipped)
	if err := os.Remove(filepath.Join(dir, "rng_state_1.pth")); err != nil {
		t.Fatal(err)
	}
	err := c.Verify(t.Context())
	if err == nil || !strings.Contains(err.Error(), OptimizerFile+" does not match") || !strings.Contains(err.Error(), "rng_state_1.pth is missing") {
		t.Errorf("Verify = %v", err)
	}
	if err := Complete(dir); err == nil || !strings.Contains(err.Error(), "rng_state_1.pth is missing") {
		t.Errorf("Complete = %v", err)
	}
}

// Several goroutines may read one checkpoint.
func TestConcurrentReads(t *testing.T) {
	c := open(t, "testdata/regression-w2/checkpoint-2")
	done := make(chan error)
	for range 4 {
		go func() {
			_, a := c.Weights()
			_, b := c.Optimizer()
			done <- errors.Join(a, b)
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestRewrittenTrainerCheckpoint(t *testing.T) {
	for dir, worldSize := range map[string]int{"testdata/regression-w2/checkpoint-2": 2, "testdata/digits-w1/checkpoint-3": 1} {
		c := open(t, dir)
		to := t.TempDir()
		save(t, to, contentsOf(t, c, worldSize), false)
		for _, name := range dirNames(t, dir) {
			if !bytes.Equal(readBytes(t, filepath.Join(dir, name)), readBytes(t, filepath.Join(to, filepath.Base(dir), name))) {
				t.Errorf("%s/%s is not written as the Trainer wrote it", dir, name)
			}
		}
	}
}

func ExampleOpen() {
	c, err := Open("testdata/regression-w2/checkpoint-2", Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	args, _, err := c.TrainingArgs()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Step(), args["learning_rate"], args["lr_scheduler_type"], args.WorldSize())
	// Output: 2 0.01 linear 2
}

var _ io.Closer = (*Checkpoint)(nil)

func TestArgumentsEqual(t *testing.T) {
	c := open(t, "testdata/digits-w1/checkpoint-3")
	args, there, err := c.TrainingArgs()
	if err != nil || !there {
		t.Fatal(there, err)
	}
	want := DefaultArguments()
	for name, v := range map[string]any{
		"output_dir": "digits-w1", "per_device_train_batch_size": int64(10), "num_train_epochs": int64(2), "learning_rate": 0.004,
		"lr_scheduler_type": "constant", "optim": "adamw_torch", "gradient_accumulation_steps": int64(4), "save_steps": int64(3),
		"logging_steps": int64(1), "seed": int64(8), "label_names": []any{"label"}, "remove_unused_columns": false,
	} {
		want[name] = v
	}
	if !reflect.DeepEqual(args, want) {
		for name := range want {
			if !reflect.DeepEqual(args[name], want[name]) {
				t.Errorf("%s is %#v, want %#v", name, args[name], want[name])
			}
		}
	}
}
