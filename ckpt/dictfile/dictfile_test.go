package dictfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rejoin/ckpt/dictfile"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

func weights(names ...string) *pyobj.Dict {
	d := &pyobj.Dict{Kind: pyobj.OrderedDict}
	for i, name := range names {
		d.Set(name, tensor.FromFloat32([]float32{float32(i)}, 1))
	}
	return d
}

func optimizer(group *pyobj.Dict, steps ...any) *pyobj.Dict {
	states := pyobj.NewDict()
	for i, step := range steps {
		states.Set(int64(i), pyobj.NewDict("step", step))
	}
	return pyobj.NewDict("state", states, "param_groups", &pyobj.List{Items: []any{group}})
}

func TestRecognise(t *testing.T) {
	lambda := pyobj.NewDict("last_epoch", int64(3), "lr_lambdas", &pyobj.List{})
	for _, tc := range []struct {
		name  string
		dict  *pyobj.Dict
		holds string
	}{
		{
			"the tutorial's", pyobj.NewDict("epoch", int64(5), "model_state_dict", weights("a", "b"), "optimizer_state_dict", optimizer(pyobj.NewDict()), "loss", 0.4),
			`weights (2 tensors under "model_state_dict"), an optimizer's state ("optimizer_state_dict"), the epoch (5)`,
		},
		{
			"ImageNet's", pyobj.NewDict("epoch", int64(1), "arch", "resnet18", "state_dict", weights("module.a"), "best_acc1", 0.1, "optimizer", optimizer(pyobj.NewDict()), "scheduler", lambda),
			`weights (1 tensors under "state_dict", named with the prefix "module."), an optimizer's state ("optimizer"), a schedule's state ("scheduler"), the epoch (1)`,
		},
		{"weights and epoch", pyobj.NewDict("model", weights("a"), "epoch", 2.0), `weights (1 tensors under "model"), the epoch (2)`},
		{"not an optimizer's", pyobj.NewDict("model", weights("a"), "optimizer", pyobj.NewDict("name", "sgd"), "scheduler", "cosine"), `weights (1 tensors under "model")`},
	} {
		c, err := dictfile.Recognise(tc.dict)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		} else if c.Holds() != tc.holds {
			t.Errorf("%s: it holds %s\nwant %s", tc.name, c.Holds(), tc.holds)
		}
	}
}

func TestRecogniseRefuses(t *testing.T) {
	for _, tc := range []struct {
		object any
		want   string
	}{
		{nil, "the file holds a None, not a dict"},
		{&pyobj.List{}, "the file holds a list, not a dict"},
		{pyobj.NewDict(), "an empty dict"},
		{weights("a", "b"), "it holds weights only (2 tensors); `launch train --init FILE`"},
		{optimizer(pyobj.NewDict()), "the file is an optimizer's state"},
		{pyobj.NewDict("model", weights("a"), "epoch", int64(-1)), `key "epoch": expected a number of an epoch, found int -1`},
		{pyobj.NewDict("model", weights("a"), "epoch", int64(1)<<40), "expected a number of an epoch"},
		{pyobj.NewDict("model", weights("a"), "epoch", "3"), "found str 3"},
	} {
		_, err := dictfile.Recognise(tc.object)
		if _, ok := errors.AsType[*dictfile.NotRecognisedError](err); !ok || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error is %v, want %q in a *NotRecognisedError", err, tc.want)
		}
	}
}

func TestFirstGroup(t *testing.T) {
	betas := &pyobj.Tuple{Items: []any{0.8, 0.9}}
	adam := func(more ...any) *pyobj.Dict {
		d := pyobj.NewDict("lr", 0.1, "betas", betas, "eps", 1e-6, "weight_decay", int64(0), "amsgrad", false)
		for i := 0; i < len(more); i += 2 {
			d.Set(more[i], more[i+1])
		}
		return d
	}
	adamWith := func(change func(*dictfile.Group)) dictfile.Group {
		g := dictfile.Group{Kind: dictfile.Adam, Groups: 1, LR: 0.1, InitialLR: 0.1, Beta1: 0.8, Beta2: 0.9, Eps: 1e-6}
		change(&g)
		return g
	}
	for _, tc := range []struct {
		name  string
		state *pyobj.Dict
		want  dictfile.Group
	}{
		{"Adam", optimizer(adam("decoupled_weight_decay", false), int64(3), tensor.FromFloat32([]float32{7})), adamWith(func(g *dictfile.Group) { g.Steps = 7 })},
		{"AdamW, fused", optimizer(adam("decoupled_weight_decay", true, "fused", true, "weight_decay", 0.5)), adamWith(func(g *dictfile.Group) {
			g.Kind, g.Fused, g.WeightDecay = dictfile.AdamW, true, 0.5
		})},
		{"older, without decay", optimizer(adam("initial_lr", 0.4)), adamWith(func(g *dictfile.Group) { g.InitialLR = 0.4 })},
		{"older, with decay", optimizer(adam("weight_decay", 0.5)), adamWith(func(g *dictfile.Group) { g.Kind, g.WeightDecay = dictfile.AdamOrAdamW, 0.5 })},
		{
			"SGD", optimizer(pyobj.NewDict("lr", tensor.FromFloat32([]float32{0.5}), "momentum", 0.9, "dampening", 0.25)),
			dictfile.Group{Kind: dictfile.SGD, Groups: 1, LR: 0.5, InitialLR: 0.5, Momentum: 0.9, Dampening: 0.25},
		},
		{"another", optimizer(pyobj.NewDict("lr", "x", "lr_decay", 0.0), "step", tensor.FromFloat32([]float32{1, 2}, 2)), dictfile.Group{Groups: 1}},
	} {
		c, err := dictfile.Recognise(pyobj.NewDict("model", weights("a"), "optimizer", tc.state))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.FirstGroup(); err != nil || got != tc.want {
			t.Errorf("%s (%v): %+v, %v, want %+v", tc.name, got.Kind, got, err, tc.want)
		}
	}
	for _, groups := range []any{nil, &pyobj.List{}, &pyobj.List{Items: []any{"x"}}} {
		c, err := dictfile.Recognise(pyobj.NewDict("model", weights("a"), "optimizer", pyobj.NewDict("state", nil, "param_groups", groups)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.FirstGroup(); err == nil {
			t.Errorf("groups %v are taken", groups)
		}
	}
}

func keys(d *pyobj.Dict) (out []string) {
	for _, e := range d.Entries() {
		out = append(out, fmt.Sprint(e.Key))
	}
	return out
}

func TestLayoutKeepsWhatItDoesNotKnow(t *testing.T) {
	extra := tensor.FromFloat32([]float32{1, 2, 3}, 3)
	extra.Storage.Device = "cuda:1"
	dict := pyobj.NewDict("args", "x", "epoch", int64(1), "state_dict", weights("module.a"), "optimizer", optimizer(pyobj.NewDict()),
		"train_loss", 1.5, "device", pyobj.Device("cuda:0"), "history", extra, int64(7), "seven")
	c, err := dictfile.Recognise(dict)
	if err != nil {
		t.Fatal(err)
	}
	layout := c.Layout()
	clear(extra.Storage.Data) // the file is gone
	sd := tensor.NewStateDict()
	sd.Set("a", tensor.FromFloat32([]float32{9}, 1))
	opt := pyobj.NewDict("state", "new")
	out := layout.Dict(dictfile.State{Epoch: 4, Weights: sd, Optimizer: opt, Loss: 0.25})
	if !slices.Equal(keys(out), keys(dict)) {
		t.Errorf("keys are %v, want %v", keys(out), keys(dict))
	}
	for key, want := range map[any]any{"args": "x", "epoch": int64(4), "optimizer": opt, "train_loss": 0.25, "device": pyobj.Device("cpu"), int64(7): "seven"} {
		if got, _ := out.Get(key); got != want {
			t.Errorf("%v is %v, want %v", key, got, want)
		}
	}
	history, _ := out.Get("history")
	if got := make([]float32, 3); history.(*tensor.Tensor).ReadFloat32(got) != nil || !slices.Equal(got, []float32{1, 2, 3}) {
		t.Errorf("history is %v", got)
	}
	w, _ := out.Get("state_dict")
	if d := w.(*pyobj.Dict); d.Kind != pyobj.OrderedDict || !slices.Equal(keys(d), []string{"module.a"}) {
		t.Errorf("weights are %v", keys(w.(*pyobj.Dict)))
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "état 1.pth")
	for epoch := range 2 { // the second replaces the first
		d := dictfile.DefaultLayout().Dict(dictfile.State{Epoch: epoch, Weights: tensor.NewStateDict(), Optimizer: optimizer(pyobj.NewDict())})
		if err := dictfile.Write(path, d); err != nil {
			t.Fatal(err)
		}
		f, err := torchfile.Open(path, torchfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := f.Object().(*pyobj.Dict).Get("epoch")
		if err := f.Close(); err != nil || got != int64(epoch) {
			t.Errorf("epoch is %v (%v), want %d", got, err, epoch)
		}
	}
	// What cannot be pickled leaves the old file, and nothing beside it.
	bad := pyobj.NewDict("x", struct{}{})
	if err := dictfile.Write(path, bad); err == nil || !strings.Contains(err.Error(), "état 1.pth could not be written") {
		t.Errorf("error is %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v (%v), want one file", entries, err)
	}
	if err := dictfile.Write(filepath.Join(dir, "no", "such.pth"), bad); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

// A script's dict, recognised and laid out again after some training.
func Example() {
	dict := pyobj.NewDict(
		"epoch", int64(1),
		"model_state_dict", weights("module.fc.weight"),
		"optimizer_state_dict", optimizer(pyobj.NewDict("lr", 0.1, "momentum", 0.9, "dampening", int64(0))),
		"device", "cuda:0",
	)
	c, err := dictfile.Recognise(dict)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Holds())
	group, err := c.FirstGroup()
	fmt.Println(group.Kind, group.LR, err)

	trained := tensor.NewStateDict()
	trained.Set("fc.weight", tensor.FromFloat32([]float32{1}, 1))
	next := c.Layout().Dict(dictfile.State{Epoch: 2, Weights: trained, Optimizer: c.Optimizer})
	fmt.Println(keys(next))
	// Output:
	// weights (1 tensors under "model_state_dict", named with the prefix "module."), an optimizer's state ("optimizer_state_dict"), the epoch (1)
	// SGD 0.1 <nil>
	// [epoch model_state_dict optimizer_state_dict device]
}
