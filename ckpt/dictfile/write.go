package dictfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// Layout is how a script's dict is laid out: its keys in order, the prefix of
// the weights' names, and the values that training does not change. It holds
// copies, so that it outlives the file.
type Layout struct {
	entries                                         []pyobj.Entry
	prefix                                          string
	weightsKey, optimizerKey, schedulerKey, lossKey string
}

// DefaultLayout is that of PyTorch's tutorial.
func DefaultLayout() *Layout {
	l := &Layout{weightsKey: "model_state_dict", optimizerKey: "optimizer_state_dict", lossKey: "loss"}
	for _, key := range []string{epochKey, l.weightsKey, l.optimizerKey, l.lossKey} {
		l.entries = append(l.entries, pyobj.Entry{Key: key})
	}
	return l
}

// Layout is the layout of the dict.
func (c *Contents) Layout() *Layout {
	l := &Layout{
		prefix: c.Prefix, weightsKey: c.weightsKey, optimizerKey: c.optimizerKey, schedulerKey: c.schedulerKey, lossKey: c.lossKey,
	}
	var cloner pyobj.Cloner
	for _, e := range c.dict.Entries() {
		entry := pyobj.Entry{Key: e.Key}
		switch e.Key {
		case l.weightsKey, l.optimizerKey, l.schedulerKey, l.lossKey, epochKey:
		default:
			entry.Value = cloner.Clone(e.Value)
		}
		l.entries = append(l.entries, entry)
	}
	return l
}

// State is what training changes. Epoch is what the script's own count would
// say: see [Contents.Epoch].
type State struct {
	Epoch                int
	Weights              *tensor.StateDict // under the model's names
	Optimizer, Scheduler *pyobj.Dict
	Loss                 float64
}

// Dict is a dict of the layout that holds s, with everything on the CPU: a
// device that is named beside the weights becomes "cpu" as well.
func (l *Layout) Dict(s State) *pyobj.Dict {
	d := pyobj.NewDict()
	for _, e := range l.entries {
		value := e.Value
		switch key, _ := e.Key.(string); key {
		case "": // a layout lacks some of the keys below
		case epochKey:
			value = int64(s.Epoch)
		case l.weightsKey:
			value = l.weights(s.Weights)
		case l.optimizerKey:
			value = s.Optimizer
		case l.schedulerKey:
			value = s.Scheduler
		case l.lossKey:
			value = s.Loss
		case "device":
			value = onCPU(value)
		}
		d.Set(e.Key, value)
	}
	return d
}

// onCPU is the CPU in the form that v has.
func onCPU(v any) any {
	switch v.(type) {
	case string:
		return "cpu"
	case pyobj.Device:
		return pyobj.Device("cpu")
	}
	return v
}

// weights is an OrderedDict, as Module.state_dict makes it.
func (l *Layout) weights(sd *tensor.StateDict) *pyobj.Dict {
	d := &pyobj.Dict{Kind: pyobj.OrderedDict}
	for _, name := range sd.Names() {
		t, _ := sd.Get(name)
		d.Set(l.prefix+name, t)
	}
	return d
}

// Write writes object to path as torch.save does: whole and durable under its
// name, or not at all. One process at a time may write path. The error names
// the file.
func Write(path string, object *pyobj.Dict) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s could not be written: %w", path, err)
		}
	}()
	partial := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".partial")
	f, err := os.OpenFile(partial, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	err = errors.Join(torchfile.Write(f, torchfile.ArchiveName(path), object), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
