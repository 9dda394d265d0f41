package hf

import (
	"errors"
	"fmt"
	"math/big"

	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// DecodeTrainingArgs reads the bytes of a training_args.bin: the attributes of
// a pickled TrainingArguments, or a class derived from it, as plain values.
// Nothing in it is run.
func DecodeTrainingArgs(data []byte) (Arguments, error) {
	f, err := torchfile.Read(data, TrainingArgsFile, torchfile.Options{MapLocation: tensor.CPU, Describe: true})
	if err != nil {
		return nil, err
	}
	v := f.Object()
	object, ok := v.(*pyobj.Object)
	if !ok {
		return nil, fmt.Errorf("expected TrainingArguments, found %s", pyobj.TypeName(v))
	}
	attributes, ok := object.State.(*pyobj.Dict)
	if !ok {
		return nil, fmt.Errorf("expected the attributes of %v, found %s", object.Class, pyobj.TypeName(object.State))
	}
	if _, ok := attributes.Get("per_device_train_batch_size"); !ok {
		return nil, fmt.Errorf("%v is no TrainingArguments: it has no per_device_train_batch_size", object.Class)
	}
	p := plainer{left: maxArgumentValues}
	return p.dict(attributes, 0)
}

// Shared objects can make a small pickle a huge tree: both are bounded.
const (
	maxArgumentValues = 1 << 17
	maxArgumentDepth  = 32
)

// A plainer turns pickled values into those of [Arguments].
type plainer struct{ left int }

var errTooManyArguments = errors.New("the arguments hold too many values, or nest too deep")

func (p *plainer) value(v any, depth int) (any, error) {
	if p.left--; p.left < 0 || depth > maxArgumentDepth {
		return nil, errTooManyArguments
	}
	switch v := v.(type) {
	case nil, bool, int64, *big.Int, float64, string:
		return v, nil
	case int:
		return int64(v), nil
	case pyobj.Bytes:
		return string(v), nil
	case pyobj.Device:
		return string(v), nil
	case pyobj.Global:
		return v.String(), nil
	case tensor.DType:
		return v.String(), nil
	case *pyobj.NumpyScalar:
		return v.Float()
	case *pyobj.Set:
		return p.list(v.Items, depth)
	case *pyobj.Dict:
		return p.dict(v, depth)
	case *pyobj.Object:
		return p.object(v, depth)
	}
	if items, err := pyobj.AsItems(v); err == nil {
		return p.list(items, depth)
	}
	return pyobj.TypeName(v), nil // no use for more of, say, a tensor
}

func (p *plainer) list(items []any, depth int) (any, error) {
	plain := make([]any, len(items))
	for i, item := range items {
		var err error
		if plain[i], err = p.value(item, depth+1); err != nil {
			return nil, err
		}
	}
	return plain, nil
}

func (p *plainer) dict(d *pyobj.Dict, depth int) (map[string]any, error) {
	plain := make(map[string]any, d.Len())
	for _, entry := range d.Entries() {
		key, ok := entry.Key.(string)
		if !ok {
			k, err := p.value(entry.Key, depth+1)
			if err != nil {
				return nil, err
			}
			key = fmt.Sprint(k)
		}
		v, err := p.value(entry.Value, depth+1)
		if err != nil {
			return nil, err
		}
		plain[key] = v
	}
	return plain, nil
}

// object is an enum's value, or the attributes of anything else.
func (p *plainer) object(o *pyobj.Object, depth int) (any, error) {
	if d, ok := o.State.(*pyobj.Dict); ok {
		return p.dict(d, depth)
	}
	if o.Called && o.Args != nil && len(o.Args.Items) == 1 {
		return p.value(o.Args.Items[0], depth+1)
	}
	return o.Class.String(), nil
}
