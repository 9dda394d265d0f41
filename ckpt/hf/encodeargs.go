package hf

import (
	"bytes"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"rejoin/ckpt/hf/pyjson"
	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
)

// DefaultArguments are all training arguments with the defaults of
// transformers 5.12 for training on CPUs.
func DefaultArguments() Arguments { return defaultsOf(argumentTable) }

func defaultsOf(fields []argumentField) map[string]any {
	defaults := make(map[string]any, len(fields))
	for _, f := range fields {
		defaults[f.name] = pyjson.Clone(f.value)
		if f.class != nil && f.class.fields != nil {
			defaults[f.name] = defaultsOf(f.class.fields)
		}
	}
	return defaults
}

// Clone is a deep copy.
func (a Arguments) Clone() Arguments { return pyjson.CloneMap(a) }

// SetWorldSize notes the number of ranks where [Arguments.WorldSize] finds it.
func (a Arguments) SetWorldSize(n int) {
	state, ok := a["distributed_state"].(map[string]any)
	if !ok {
		state = defaultsOf(partialState.fields)
		a["distributed_state"] = state
	}
	state["num_processes"] = int64(n)
}

// EncodeTrainingArgs writes a training_args.bin that transformers opens as
// TrainingArguments with these values, and the defaults for what args leaves
// out. Names that TrainingArguments lacks become further attributes, after the
// known ones. An enum's value must be one that transformers 5.12 knows.
func EncodeTrainingArgs(args Arguments) ([]byte, error) {
	object, err := encodeObject(&argumentClass{global: trainingArguments, fields: argumentTable}, args)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := torchfile.Write(&out, "training_args", object); err != nil {
		return nil, fmt.Errorf("%s: %w", TrainingArgsFile, err)
	}
	return out.Bytes(), nil
}

// encodeObject makes an instance of a class from its attributes' plain values.
func encodeObject(class *argumentClass, values map[string]any) (*pyobj.Object, error) {
	attributes := pyobj.NewDict()
	known := map[string]bool{}
	for _, f := range class.fields {
		known[f.name] = true
		v, ok := values[f.name]
		if !ok {
			v = f.value
		}
		encoded, err := encodeField(f, v)
		if err != nil {
			return nil, err
		}
		attributes.Set(f.name, encoded)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if known[name] {
			continue
		}
		encoded, err := encodePlain(name, values[name])
		if err != nil {
			return nil, err
		}
		attributes.Set(name, encoded)
	}
	return &pyobj.Object{Class: class.global, Args: &pyobj.Tuple{}, State: attributes}, nil
}

func encodeField(f argumentField, v any) (any, error) {
	switch {
	case f.class == nil:
		return encodePlain(f.name, v)
	case f.class.fields != nil:
		values, ok := v.(map[string]any)
		if !ok && v != nil {
			return nil, &ArgumentError{f.name, v, "a dict"}
		}
		return encodeObject(f.class, values)
	}
	s, ok := v.(string)
	switch {
	case !ok:
		return nil, &ArgumentError{f.name, v, "a str"}
	case f.class.values == nil:
		return pyobj.Device(s), nil
	case !slices.Contains(f.class.values, s):
		return nil, &ArgumentError{f.name, v, "one of " + strings.Join(f.class.values, ", ")}
	}
	return &pyobj.Object{Class: f.class.global, Args: &pyobj.Tuple{Items: []any{s}}, Called: true}, nil
}

func encodePlain(name string, v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, int64, *big.Int, float64, string:
		return v, nil
	case int:
		return int64(v), nil
	case []any:
		list := &pyobj.List{}
		for i, item := range v {
			encoded, err := encodePlain(fmt.Sprintf("%s[%d]", name, i), item)
			if err != nil {
				return nil, err
			}
			list.Items = append(list.Items, encoded)
		}
		return list, nil
	case map[string]any:
		dict := pyobj.NewDict()
		for _, key := range slices.Sorted(maps.Keys(v)) {
			encoded, err := encodePlain(fmt.Sprintf("%s[%q]", name, key), v[key])
			if err != nil {
				return nil, err
			}
			dict.Set(key, encoded)
		}
		return dict, nil
	}
	return nil, &ArgumentError{name, v, "a plain value"}
}
