package torchfile

import (
	"fmt"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// rebuilder makes the values of torch's own classes while a pickle is read.
type rebuilder struct {
	storages map[string]*pyobj.TypedStorage
	order    []*pyobj.TypedStorage // by first use
	tags     map[string]int
	mapTo    tensor.MapLocation
	// find returns the bytes of a storage; nil where they come later, and the
	// sizes are checked by [rebuilder.check].
	find   func(key string, size uint64) ([]byte, error)
	placed []placed
	views  map[string]storageView // of legacy files
}

// storageView is a storage that is part of another.
type storageView struct {
	root, view *pyobj.TypedStorage
	offset     int // in elements
}

// placed is a tensor to check once its storage has its bytes.
type placed struct {
	tensor  *tensor.Tensor
	keyPath func() string
}

func newRebuilder(mapTo tensor.MapLocation) *rebuilder {
	if mapTo == nil {
		mapTo = tensor.CPU
	}
	return &rebuilder{storages: map[string]*pyobj.TypedStorage{}, tags: map[string]int{}, views: map[string]storageView{}, mapTo: mapTo}
}

// buildFunc makes a value of a call's arguments.
type buildFunc func(c *callArgs) (any, error)

var (
	torchSize   = pyobj.Global{Module: "torch", Name: "Size"}
	torchDevice = pyobj.Global{Module: "torch", Name: "device"}
	plainTensor = pyobj.Global{Module: "torch", Name: "Tensor"}
)

// buildFuncs are torch's functions that make plain data.
// Source: torch/_utils.py and torch/_tensor.py, torch 2.14; _rebuild_tensor is historic.
var buildFuncs map[pyobj.Global]buildFunc

func init() {
	buildFuncs = map[pyobj.Global]buildFunc{
		torchSize:   buildSize,
		torchDevice: buildDevice,
		{Module: "torch._utils", Name: "_rebuild_tensor"}:                 buildTensor,
		{Module: "torch._utils", Name: "_rebuild_tensor_v2"}:              buildTensor,
		{Module: "torch._utils", Name: "_rebuild_tensor_v3"}:              buildTensorV3,
		{Module: "torch._utils", Name: "_rebuild_parameter"}:              buildParameter,
		{Module: "torch._utils", Name: "_rebuild_parameter_with_state"}:   buildParameter,
		{Module: "torch._utils", Name: "_rebuild_meta_tensor_no_storage"}: buildMeta,
		{Module: "torch._tensor", Name: "_rebuild_from_type_v2"}:          buildFromType,
		{Module: "torch.torch_version", Name: "TorchVersion"}:             buildDescribed,
		{Module: "torch.serialization", Name: "_get_layout"}:              buildDescribed,
	}
}

// valueGlobals are torch's classes that stand as values in what buildFuncs take.
var valueGlobals = map[pyobj.Global]bool{
	plainTensor: true,
	{Module: "torch.nn.parameter", Name: "Parameter"}: true,
	{Module: "torch.nn.parameter", Name: "Buffer"}:    true,
}

// global resolves a class that stands as a value.
func (r *rebuilder) global(g pyobj.Global) (any, bool) {
	if g.Module == "torch" {
		if d, err := tensor.ParseDType(g.Name); err == nil {
			return d, true
		}
	}
	if _, ok := storageDType(g); ok {
		return g, true
	}
	_, ok := buildFuncs[g]
	return g, ok || valueGlobals[g]
}

// persistentStorage resolves ('storage', class, key, location, numel), with a
// sixth item in legacy files: None or a view (key, offset, size).
func (r *rebuilder) persistentStorage(id any) (any, error) {
	tuple, ok := id.(*pyobj.Tuple)
	if !ok || len(tuple.Items) < 5 || len(tuple.Items) > 6 || tuple.Items[0] != any("storage") {
		return nil, fmt.Errorf("a persistent id is %s, expected a storage", pyobj.TypeName(id))
	}
	class, ok1 := tuple.Items[1].(pyobj.Global)
	key, ok2 := storageKey(tuple.Items[2])
	tag, ok3 := tuple.Items[3].(string)
	numel, err := pyobj.AsInt(tuple.Items[4])
	if !ok1 || !ok2 || !ok3 || err != nil {
		return nil, fmt.Errorf("a storage is given by (%s, %s, %s, %s), expected (class, key, location, number of elements)",
			pyobj.TypeName(tuple.Items[1]), pyobj.TypeName(tuple.Items[2]), pyobj.TypeName(tuple.Items[3]), pyobj.TypeName(tuple.Items[4]))
	}
	s, err := r.storage(class, key, tag, numel)
	if err != nil || len(tuple.Items) == 5 || tuple.Items[5] == nil {
		return s, err
	}
	return r.view(s, tuple.Items[5])
}

// storageKey reads a key: text, or a number in old files.
func storageKey(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case int64:
		return fmt.Sprint(v), true
	}
	return "", false
}

func (r *rebuilder) storage(class pyobj.Global, key, tag string, numel int64) (*pyobj.TypedStorage, error) {
	d, ok := storageDType(class)
	if !ok {
		return nil, fmt.Errorf("storage %q has the unknown class %v", key, class)
	}
	if s, ok := r.storages[key]; ok {
		if s.Class != class || int64(s.NumElements) != numel {
			return nil, fmt.Errorf("storage %q is %v of %d elements here and %v of %d elsewhere", key, class, numel, s.Class, s.NumElements)
		}
		return s, nil
	}
	if numel < 0 || numel > 1<<59 {
		return nil, corrupt("storage "+key, "claims %d elements", numel)
	}
	device, err := r.mapTo(tag)
	if err != nil {
		return nil, fmt.Errorf("storage %q: %w", key, err)
	}
	s := &pyobj.TypedStorage{Class: class, DType: d, NumElements: int(numel), Storage: &tensor.Storage{Device: device, SavedDevice: tag, Key: key}}
	if r.find != nil && device != "meta" {
		if s.Storage.Data, err = r.find(key, uint64(numel)*uint64(d.Size())); err != nil {
			return nil, err
		}
	}
	r.storages[key] = s
	r.order = append(r.order, s)
	r.tags[tag]++
	return s, nil
}

// tensorOf notes a tensor for the check of its bounds.
func (r *rebuilder) tensorOf(t *tensor.Tensor, keyPath func() string) *tensor.Tensor {
	t.Meta = t.Storage == nil || t.Storage.Device == "meta"
	r.placed = append(r.placed, placed{t, keyPath})
	return t
}

// An expanded tensor shows the same bytes again and again. Beyond these bounds
// it is a trap for whoever copies its elements, not a tensor someone saved.
const (
	expandedFloor  = 4 << 30
	expandedFactor = 64
)

// check holds every tensor to its storage, which must have its bytes by now.
func (r *rebuilder) check() error {
	for _, p := range r.placed {
		err := p.tensor.Check()
		if err == nil {
			err = checkExpanded(p.tensor)
		}
		if err != nil {
			where := "tensor"
			if path := p.keyPath(); path != "" {
				where = "key " + path
			}
			return corrupt(where, "%v", err)
		}
	}
	return nil
}

func checkExpanded(t *tensor.Tensor) error {
	if t.Meta {
		return nil
	}
	size, stored := t.NumElements()*t.DType.Size(), len(t.Storage.Data)
	if size > expandedFloor && size/expandedFactor > stored {
		return fmt.Errorf("shape %v, stride %v show %d bytes of which only %d are stored", t.Shape, t.Stride, size, stored)
	}
	return nil
}
