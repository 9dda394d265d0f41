package torchfile

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"rejoin/ckpt/torchfile/pickle"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// ArchiveName is the name that torch.save gives the archive's top directory: the
// file's base name without its last extension.
func ArchiveName(path string) string {
	base := filepath.Base(path)
	if i := strings.LastIndexByte(base, '.'); i > 0 {
		base = base[:i]
	}
	return base
}

// Write writes obj, in package pyobj's values, as torch.save of torch 2.14 would
// write it to a file that [ArchiveName] names name. Equal objects give equal
// bytes. Storages are read while they are written, one at a time, and never
// copied as a whole unless a lone view of one is not contiguous.
func Write(w io.Writer, name string, obj any) error {
	return WriteTagged(w, name, obj, nil)
}

// WriteTagged is [Write] with other device tags than "cpu": what torch would have
// written on another machine. tag gives the tag of each storage by its number, in
// the order in which the object first uses them; nil means "cpu".
func WriteTagged(w io.Writer, name string, obj any, tag func(storage int) string) error {
	plan := newPlan()
	plan.tag = tag
	text, err := plan.encode(obj)
	if err != nil {
		return err
	}
	z := newArchiveWriter(w, name)
	z.record("data.pkl", text)
	z.record(".format_version", []byte("1"))
	z.record(".storage_alignment", []byte(strconv.Itoa(alignment)))
	z.record("byteorder", []byte("little"))
	for i, s := range plan.order {
		data, err := s.bytes()
		if err != nil {
			return fmt.Errorf("storage %d: %w", i, err)
		}
		z.record("data/"+strconv.Itoa(i), data)
	}
	z.record("version", []byte("3\n"))
	return z.close()
}

// plan decides which storages to write and how, in two passes over the object:
// the first counts the tensors on each storage.
type plan struct {
	writing bool
	legacy  bool
	tag     func(storage int) string // nil: "cpu"
	users   map[stored]map[*tensor.Tensor]bool
	whole   map[stored]bool // a storage that stands by itself
	keys    map[stored]int
	order   []*storedBytes
}

// stored is a storage as it is written: torch keeps one element type for each,
// so tensors of two types on one storage get a copy each.
type stored struct {
	storage *tensor.Storage
	dtype   tensor.DType
}

// storedBytes is what one record holds.
type storedBytes struct {
	whole *tensor.Storage // the storage, or …
	size  int             // … of which this many bytes
	own   *tensor.Tensor  // the tensor whose elements alone are written
}

func (s *storedBytes) bytes() ([]byte, error) {
	if s.own != nil {
		return s.own.Bytes()
	}
	return s.whole.Data[:s.size], nil
}

func newPlan() *plan {
	return &plan{users: map[stored]map[*tensor.Tensor]bool{}, whole: map[stored]bool{}, keys: map[stored]int{}}
}

// encode plans, and gives the pickle.
func (p *plan) encode(obj any) ([]byte, error) {
	if _, err := p.dump(obj); err != nil {
		return nil, err
	}
	p.writing = true
	return p.dump(obj)
}

func (p *plan) dump(obj any) ([]byte, error) {
	return pickle.Dump(obj, pickle.DumpOptions{Reduce: p.reduce, Persistent: p.persistent})
}

// parameterData is the tensor in a Parameter, which is written as one that needs
// no gradient.
type parameterData struct{ *tensor.Tensor }

// storageUse is a storage under a tensor, of class with numel elements.
type storageUse struct {
	class pyobj.Global
	key   int
	numel int
}

func (p *plan) reduce(v any) (*pickle.Reduction, error) {
	switch v := v.(type) {
	case *tensor.Tensor:
		return p.tensor(v, v.RequiresGrad)
	case *parameterData:
		return p.tensor(v.Tensor, false)
	case *pyobj.Parameter:
		return parameterReduction(v), nil
	case *pyobj.TypedTensor:
		inner, err := p.tensor(v.Data, v.Data.RequiresGrad)
		if err != nil {
			return nil, err
		}
		return reduction("torch._tensor", "_rebuild_from_type_v2", inner.Func, v.Class, inner.Args, v.State), nil
	case pyobj.Size:
		return reduction("torch", "Size", ints(v)), nil
	case pyobj.Device:
		return deviceReduction(v)
	}
	return nil, nil
}

func reduction(module, name string, args ...any) *pickle.Reduction {
	return &pickle.Reduction{Func: pyobj.Global{Module: module, Name: name}, Args: &pyobj.Tuple{Items: args}}
}

func ints(v []int) *pyobj.Tuple {
	t := &pyobj.Tuple{}
	for _, n := range v {
		t.Items = append(t.Items, n)
	}
	return t
}

// noHooks is the backward hooks that torch writes: never any.
func noHooks() *pyobj.Dict { return &pyobj.Dict{Kind: pyobj.OrderedDict} }

// parameterReduction is torch.nn.Parameter.__reduce_ex__.
func parameterReduction(v *pyobj.Parameter) *pickle.Reduction {
	data := &parameterData{v.Data}
	if v.State == nil {
		return reduction("torch._utils", "_rebuild_parameter", data, v.Data.RequiresGrad, noHooks())
	}
	return reduction("torch._utils", "_rebuild_parameter_with_state", data, v.Data.RequiresGrad, noHooks(), v.State)
}

// deviceReduction is torch.device.__reduce__, whose text is made at run time.
func deviceReduction(v pyobj.Device) (*pickle.Reduction, error) {
	name, index, ok := strings.Cut(string(v), ":")
	kind := pickle.Text{Text: name}
	if !ok {
		return reduction("torch", "device", kind), nil
	}
	n, err := strconv.Atoi(index)
	if err != nil {
		return nil, fmt.Errorf("device %q has no number after its colon", v)
	}
	return reduction("torch", "device", kind, n), nil
}

// tensor is torch.Tensor.__reduce_ex__.
func (p *plan) tensor(t *tensor.Tensor, requiresGrad bool) (*pickle.Reduction, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if t.Meta {
		return reduction("torch._utils", "_rebuild_meta_tensor_no_storage", t.DType, ints(t.Shape), ints(t.Stride), requiresGrad), nil
	}
	offset, stride := t.Offset, t.Stride
	if p.alone(t) {
		offset, stride = 0, tensor.ContiguousStride(t.Shape)
	}
	args := []any{p.use(t), offset, ints(t.Shape), ints(stride), requiresGrad, noHooks()}
	if storageClass(t.DType) == untypedStorage {
		return reduction("torch._utils", "_rebuild_tensor_v3", append(args, t.DType)...), nil
	}
	return reduction("torch._utils", "_rebuild_tensor_v2", args...), nil
}

// alone reports whether t is written as its own elements: no other tensor of the
// object shares its storage, and the storage holds more than t needs.
func (p *plan) alone(t *tensor.Tensor) bool {
	at := stored{t.Storage, t.DType}
	return len(p.users[at]) == 1 && !p.whole[at] && t.NumElements()*t.DType.Size() < len(t.Storage.Data)
}

// use notes that t is on its storage and returns the storage to write.
func (p *plan) use(t *tensor.Tensor) *storageUse {
	at := stored{t.Storage, t.DType}
	if !p.writing {
		if p.users[at] == nil {
			p.users[at] = map[*tensor.Tensor]bool{}
		}
		p.users[at][t] = true
		return &storageUse{}
	}
	size := t.DType.Size()
	content := &storedBytes{whole: t.Storage, size: len(t.Storage.Data) / size * size}
	if p.alone(t) {
		content = &storedBytes{own: t, size: t.NumElements() * size}
	}
	return p.place(at, storageClass(t.DType), content)
}

// place gives a storage its key, by first use.
func (p *plan) place(at stored, class pyobj.Global, content *storedBytes) *storageUse {
	key, ok := p.keys[at]
	if !ok {
		key = len(p.order)
		p.keys[at] = key
		p.order = append(p.order, content)
	}
	numel := content.size
	if class != untypedStorage {
		numel /= at.dtype.Size()
	}
	return &storageUse{class, key, numel}
}

// persistent gives the persistent id of a storage.
func (p *plan) persistent(v any) (*pyobj.Tuple, error) {
	var use *storageUse
	switch v := v.(type) {
	case *storageUse:
		use = v
	case *pyobj.TypedStorage:
		at := stored{v.Storage, v.DType}
		p.whole[at] = true
		size := v.NumElements * v.DType.Size()
		if size > len(v.Storage.Data) {
			return nil, fmt.Errorf("storage of %d elements has %d bytes", v.NumElements, len(v.Storage.Data))
		}
		if use = (&storageUse{}); p.writing {
			use = p.place(at, v.Class, &storedBytes{whole: v.Storage, size: len(v.Storage.Data)})
		}
	default:
		return nil, nil
	}
	key := pickle.Text{Text: strconv.Itoa(use.key), ID: use.key}
	tag := "cpu"
	if p.tag != nil {
		tag = p.tag(use.key)
	}
	id := &pyobj.Tuple{Items: []any{"storage", use.class, key, tag, use.numel}}
	if p.legacy {
		id.Items = append(id.Items, nil) // no view of another storage
	}
	return id, nil
}
