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
// A dtype that cannot be held is refused, not left out.
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
	maps.Copy(want, map[string]any{
		"output_dir": "digits-w1", "per_device_train_batch_size": int64(10), "num_train_epochs": int64(2), "learning_rate": 0.004,
		"lr_scheduler_type": "constant", "optim": "adamw_torch", "gradient_accumulation_steps": int64(4), "save_steps": int64(3),
		"logging_steps": int64(1), "seed": int64(8), "label_names": []any{"label"}, "remove_unused_columns": false,
	})
	if !reflect.DeepEqual(args, want) {
		for name := range want {
			if !reflect.DeepEqual(args[name], want[name]) {
				t.Errorf("%s is %#v, want %#v", name, args[name], want[name])
			}
		}
	}
}
