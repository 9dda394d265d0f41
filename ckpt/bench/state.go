package bench

import (
	"fmt"
	"math"
	"os"

	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// The largest layer: [1024, 1024] and its bias, 4 MB.
const (
	width   = 1024
	maxRows = 1024
)

// state is a model and its Adam state, as a script's dict and as flat tensors.
type state struct {
	object *pyobj.Dict
	flat   *tensor.StateDict
	bytes  int64
}

// generate makes a state of about size bytes: linear layers and their moments.
func generate(size int64) *state {
	const row = 4 * width
	rows := int(min(max(size/3/row-1, 1), maxRows))
	layers := int(max(size/int64(3*(rows+1)*row), 1))
	s := &state{flat: tensor.NewStateDict()}
	random := uint32(1)
	fill := func(name string, shape ...int) *tensor.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			random ^= random << 13
			random ^= random >> 17
			random ^= random << 5
			values[i] = math.Float32frombits(0x3f800000|random>>9) - 1.5
		}
		t := tensor.FromFloat32(values, shape...)
		s.flat.Set(name, t)
		s.bytes += int64(4 * n)
		return t
	}
	weights, moments, numbers := &pyobj.Dict{Kind: pyobj.OrderedDict}, pyobj.NewDict(), &pyobj.List{}
	for layer := range layers {
		for _, p := range []struct {
			name  string
			shape []int
		}{{"weight", []int{rows, width}}, {"bias", []int{width}}} {
			name := fmt.Sprintf("layers.%d.%s", layer, p.name)
			weights.Set(name, fill(name, p.shape...))
			moments.Set(len(numbers.Items), pyobj.NewDict(
				"step", tensor.FromFloat32([]float32{1}),
				"exp_avg", fill("exp_avg."+name, p.shape...),
				"exp_avg_sq", fill("exp_avg_sq."+name, p.shape...)))
			numbers.Items = append(numbers.Items, len(numbers.Items))
		}
	}
	group := pyobj.NewDict("lr", 1e-3, "params", numbers)
	s.object = pyobj.NewDict("epoch", 1, "model_state_dict", weights, "optimizer_state_dict",
		pyobj.NewDict("state", moments, "param_groups", &pyobj.List{Items: []any{group}}))
	return s
}

// writePlain writes the elements and nothing else.
func (s *state) writePlain(f *os.File) error {
	for _, name := range s.flat.Names() {
		t, _ := s.flat.Get(name)
		if _, err := f.Write(t.Storage.Data); err != nil {
			return err
		}
	}
	return nil
}

// buffers are the memory that a load ends in, kept until the next.
type buffers struct{ all [][]float32 }

func (b *buffers) drop() error {
	b.all = nil
	return nil
}

func (b *buffers) read(t *tensor.Tensor) error {
	into := tensor.AlignedFloat32(t.NumElements())
	b.all = append(b.all, into)
	return t.ReadFloat32(into)
}

// openTorch opens the file and, unless they are nil, calls each with its tensors,
// and then with the file still open.
func openTorch(path string, each func(*tensor.Tensor) error, then func() error) error {
	f, err := torchfile.Open(path, torchfile.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	if each == nil {
		return nil
	}
	if err := tensors(f.Object(), each); err != nil || then == nil {
		return err
	}
	return then()
}

// tensors calls each with the tensors in v, which generate has made.
func tensors(v any, each func(*tensor.Tensor) error) error {
	switch v := v.(type) {
	case *tensor.Tensor:
		return each(v)
	case *pyobj.Dict:
		for _, e := range v.Entries() {
			if err := tensors(e.Value, each); err != nil {
				return err
			}
		}
	}
	return nil
}

func openSafe(path string, each func(*tensor.Tensor) error) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	for _, name := range f.StateDict().Names() {
		t, _ := f.StateDict().Get(name)
		if err := each(t); err != nil {
			return err
		}
	}
	return nil
}
