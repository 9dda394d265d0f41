package ckpt

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

func open(t *testing.T, name string, o Options) *Checkpoint {
	t.Helper()
	c, err := Open(filepath.Join("testdata", name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestOpenByContent(t *testing.T) {
	tests := []struct {
		file, format string
		wrapper      string
		names        []string
	}{
		{"plain.safetensors", "safetensors", "", []string{"w", "b"}},
		{"tied.pt", "zip", "", []string{"embed.weight", "lm_head.weight"}},
		{"tag_mixed_legacy.pt", "legacy", "", []string{"p0", "p1", "p2", "p3"}},
		{"module.pt", "zip", "", []string{"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"}},
		{"legacy_module.pt", "legacy", "", []string{"0.weight", "0.bias"}},
		{"checkpoint_epoch_1.pth", "zip", "model_state_dict", []string{"module.backbone.0.weight", "module.backbone.0.bias", "module.backbone.2.weight", "module.backbone.2.bias"}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			// The name must not matter.
			data, err := os.ReadFile(filepath.Join("testdata", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "model.bin")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Open(path, Options{Describe: strings.HasSuffix(tt.file, "module.pt"), CheckCRC: true})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			sd, wrapper, err := c.StateDict()
			if err != nil {
				t.Fatal(err)
			}
			if c.Format != tt.format || wrapper != tt.wrapper {
				t.Errorf("format %s, wrapper %q", c.Format, wrapper)
			}
			if got := sd.Names(); len(got) != len(tt.names) || tt.file != "plain.safetensors" && !reflect.DeepEqual(got, tt.names) {
				t.Errorf("names %v, want %v", got, tt.names)
			}
			if isTorch := tt.format != "safetensors"; (c.Torch() != nil) != isTorch || (c.Object() != nil) != isTorch || (c.Safetensors() == nil) != isTorch || (c.Tags() != nil) != isTorch {
				t.Error("the file is not what its format says")
			}
		})
	}
	if m := open(t, "plain.safetensors", Options{}).Metadata(); m["format"] != "pt" {
		t.Errorf("metadata %v", m)
	}
	if m := open(t, "tied.pt", Options{}).Metadata(); m != nil {
		t.Errorf("metadata of a torch file %v", m)
	}
}

func TestTiedTensorsShareAStorage(t *testing.T) {
	sd, _, err := open(t, "tied.pt", Options{}).StateDict()
	if err != nil {
		t.Fatal(err)
	}
	a, _ := sd.Get("embed.weight")
	b, _ := sd.Get("lm_head.weight")
	if a.Storage != b.Storage {
		t.Error("tied tensors have storages of their own")
	}
}

func TestWhatIsNoModel(t *testing.T) {
	tests := []struct{ file, problem string }{
		{"optimizer.pt", "is an optimizer's state"},
		{"scheduler.pt", "is a learning-rate schedule's state"},
		{"rng_state_0.pth", "random states"},
	}
	for _, tt := range tests {
		_, _, err := open(t, tt.file, Options{}).StateDict()
		var e *StateDictError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.problem) || !strings.Contains(err.Error(), tt.file) {
			t.Errorf("%s: %v", tt.file, err)
		}
	}
}

func TestStateDictOf(t *testing.T) {
	x := tensor.FromFloat32([]float32{1}, 1)
	module := func(children ...any) *pyobj.Object {
		return &pyobj.Object{Class: pyobj.Global{Module: "m", Name: "Net"}, State: pyobj.NewDict("_parameters", pyobj.NewDict("w", x, "none", nil), "_modules", pyobj.NewDict(children...))}
	}
	loop := module()
	loop.State = pyobj.NewDict("_modules", pyobj.NewDict("self", loop))
	wide := module()
	for range 40 { // 2^40 modules, were they not shared
		wide = &pyobj.Object{State: pyobj.NewDict("_modules", pyobj.NewDict("a", wide, "b", wide))}
	}
	tests := []struct {
		name    string
		object  any
		names   string
		wrapper string
		problem string
	}{
		{"parameter", pyobj.NewDict("w", &pyobj.Parameter{Data: x}, "epoch", 3), "[w]", "", ""},
		{"wrapped", pyobj.NewDict("epoch", 3, "state_dict", pyobj.NewDict("w", x)), "[w]", "state_dict", ""},
		{"best wrapper", pyobj.NewDict("model", pyobj.NewDict("a", x), "model_state_dict", pyobj.NewDict("b", x)), "[b]", "model_state_dict", ""},
		{"wrapper without tensors", pyobj.NewDict("model", "resnet", "w", x), "[w]", "", ""},
		{"module", module("layer", module()), "[w layer.w]", "", ""},
		{"wrapped module", pyobj.NewDict("model", module()), "[w]", "model", ""},
		{"module in itself", loop, "", "", "contain themselves"},
		{"endless module", wide, "", "", "over 100000 modules"},
		{"module without parameters", &pyobj.Object{Class: pyobj.Global{Module: "m", Name: "X"}}, "", "", "m.X without parameters"},
		{"tensor", x, "", "", "holds a Tensor, not a state_dict"},
		{"empty", pyobj.NewDict(), "", "", "an empty dict"},
		{"numbers", pyobj.NewDict("a", 1, "b", nil), "", "", "the keys are a (int), b (None)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sd, wrapper, err := StateDict(tt.object)
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Errorf("error %v, want %q", err, tt.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(sd.Names()); got != tt.names || wrapper != tt.wrapper {
				t.Errorf("names %s under %q", got, wrapper)
			}
		})
	}
}

func TestOpenFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.bin")
	if _, err := Open(path, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var e *torchfile.FormatError
	if _, err := Open(path, Options{}); !errors.As(err, &e) || e.Fault != torchfile.Truncated {
		t.Errorf("error %v", err)
	}
	var location *tensor.LocationError
	if _, err := Open("testdata/tag_mixed_legacy.pt", Options{MapLocation: tensor.TorchSaved}); !errors.As(err, &location) {
		t.Errorf("error %v", err)
	}
	if _, err := Open("testdata/module.pt", Options{}); err == nil || !strings.Contains(err.Error(), "torch.nn.modules.container.Sequential") {
		t.Errorf("a module without Describe: %v", err)
	}
}

// Open a checkpoint of any format and list its tensors.
func Example() {
	c, err := Open("testdata/module_prefix.pt", Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	state, _, err := c.StateDict()
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range state.Names()[:3] {
		t, _ := state.Get(name)
		fmt.Println(name, t)
	}
	// Output:
	// module.0.weight float32[7 9]
	// module.0.bias float32[7]
	// module.1.weight float32[7]
}
