package pickle

import (
	"fmt"
	"reflect"

	"rejoin/pyobj"
)

// saveObject writes a value with an identity.
func (p *pickler) saveObject(v any) error {
	switch v := v.(type) {
	case complex128:
		return p.reduce(&Reduction{Func: builtinName("complex"), Args: tuple(real(v), imag(v))}, nil)
	case pyobj.Device, numpyType:
		if p.recall(v) {
			return nil
		}
	case pyobj.Size:
		return p.saveReduced(v, nil)
	default:
		if !identity(v) {
			return p.saveReduced(v, nil)
		}
		if p.recall(v) {
			return nil
		}
	}
	switch v := v.(type) {
	case *pyobj.Tuple:
		return p.saveTuple(v)
	case *pyobj.List:
		return p.saveList(v)
	case *pyobj.Dict:
		return p.saveDict(v)
	case *pyobj.Set:
		return p.saveSet(v)
	}
	return p.saveReduced(v, v)
}

// identity reports whether v is one of the pointers that stand for one object.
func identity(v any) bool {
	switch v.(type) {
	case *pyobj.Tuple, *pyobj.List, *pyobj.Dict, *pyobj.Set, *pyobj.ByteArray, *pyobj.Object,
		*pyobj.NDArray, *pyobj.NumpyScalar:
		return true
	}
	return reflect.TypeOf(v).Kind() == reflect.Pointer
}

// saveReduced writes an object as its class and arguments.
func (p *pickler) saveReduced(v, key any) error {
	r, err := p.reduction(v)
	if err != nil {
		return err
	}
	return p.reduce(r, key)
}

func (p *pickler) reduction(v any) (*Reduction, error) {
	switch v := v.(type) {
	case *pyobj.Object:
		return objectReduction(v), nil
	case *pyobj.ByteArray:
		r := &Reduction{Func: builtinName("bytearray"), Args: &pyobj.Tuple{}}
		if len(v.Data) > 0 {
			r.Args = tuple(freshBytes(v.Data))
		}
		return r, nil
	case *pyobj.NDArray:
		return arrayReduction(v), nil
	case *pyobj.NumpyScalar:
		return &Reduction{
			Func: pyobj.Global{Module: numpyModule(v.Module), Name: "scalar"},
			Args: tuple(numpyType{v.Dtype, v.BigEndian}, freshBytes(v.Data)),
		}, nil
	case numpyType:
		return dtypeReduction(v), nil
	}
	if p.o.Reduce != nil {
		r, err := p.o.Reduce(v)
		if r != nil || err != nil {
			return r, err
		}
	}
	return nil, fmt.Errorf("a value of type %s cannot be written to a pickle", pyobj.TypeName(v))
}

func tuple(items ...any) *pyobj.Tuple { return &pyobj.Tuple{Items: items} }

func builtinName(name string) pyobj.Global { return pyobj.Global{Module: "__builtin__", Name: name} }

func objectReduction(o *pyobj.Object) *Reduction {
	r := &Reduction{Func: o.Class, New: !o.Called, Args: o.Args, Items: o.Items, State: o.State, HasState: o.State != nil}
	if r.Args == nil {
		r.Args = &pyobj.Tuple{}
	}
	if o.Pairs != nil {
		r.Pairs = o.Pairs.Entries()
	}
	return r
}

// numpyModule is the module to write: numpy 2's, unless the value came with another.
func numpyModule(module string) string {
	if module == "" {
		return numpyModules[0]
	}
	return module
}

// arrayReduction is numpy's ndarray.__reduce__.
func arrayReduction(a *pyobj.NDArray) *Reduction {
	shape := &pyobj.Tuple{}
	for _, d := range a.Shape {
		shape.Items = append(shape.Items, d)
	}
	return &Reduction{
		Func:     pyobj.Global{Module: numpyModule(a.Module), Name: "_reconstruct"},
		Args:     tuple(numpyNDArray, tuple(0), pyobj.Bytes("b")),
		State:    tuple(1, shape, numpyType{a.Dtype, a.BigEndian}, a.Fortran, freshBytes(a.Data)),
		HasState: true,
	}
}

// dtypeReduction is numpy's dtype.__reduce__ for a numeric type.
func dtypeReduction(t numpyType) *Reduction {
	order := "<"
	switch {
	case dtypeSize(t.code) == 1:
		order = "|"
	case t.bigEndian:
		order = ">"
	}
	return &Reduction{
		Func:     numpyDtype,
		Args:     tuple(Text{Text: t.code}, false, true),
		State:    tuple(3, order, nil, nil, nil, -1, -1, 0),
		HasState: true,
	}
}

// reduce writes a reduction and memoizes the object under key, if it has one.
// Source: save_reduce in CPython's Modules/_pickle.c.
func (p *pickler) reduce(r *Reduction, key any) error {
	if err := p.save(r.Func); err != nil {
		return err
	}
	if err := p.save(r.Args); err != nil {
		return err
	}
	if r.New {
		p.emit(opNewObj)
	} else {
		p.emit(opReduce)
	}
	p.memoize(key)
	if err := p.batchItems(r.Items); err != nil {
		return err
	}
	if err := p.batchPairs(r.Pairs); err != nil {
		return err
	}
	if !r.HasState {
		return nil
	}
	if err := p.save(r.State); err != nil {
		return err
	}
	p.emit(opBuild)
	return nil
}

// saveTuple writes a tuple; if it contains itself, it is in the memo after its
// items are written, and is taken from there.
func (p *pickler) saveTuple(t *pyobj.Tuple) error {
	if len(t.Items) == 0 {
		p.emit(opEmptyTuple)
		return nil
	}
	long := len(t.Items) > 3
	if long {
		p.emit(opMark)
	}
	for _, item := range t.Items {
		if err := p.save(item); err != nil {
			return err
		}
	}
	if _, recursive := p.memo[t]; recursive {
		if long {
			p.emit(opPopMark)
		} else {
			for range t.Items {
				p.emit(opPop)
			}
		}
		p.recall(t)
		return nil
	}
	if long {
		p.emit(opTuple)
	} else {
		p.emit(byte(opTuple1 + len(t.Items) - 1))
	}
	p.memoize(t)
	return nil
}

// saveList writes a list. Source: batch_list_exact.
func (p *pickler) saveList(l *pyobj.List) error {
	p.emit(opEmptyList)
	p.memoize(l)
	if len(l.Items) == 1 {
		if err := p.save(l.Items[0]); err != nil {
			return err
		}
		p.emit(opAppend)
		return nil
	}
	for from := 0; from < len(l.Items); from += batchSize {
		if err := p.marked(opAppends, l.Items[from:min(from+batchSize, len(l.Items))]...); err != nil {
			return err
		}
	}
	return nil
}

// marked writes MARK, the values, and op.
func (p *pickler) marked(op byte, values ...any) error {
	p.emit(opMark)
	for _, v := range values {
		if err := p.save(v); err != nil {
			return err
		}
	}
	p.emit(op)
	return nil
}

// batchItems writes the items of a list that is not exactly a list.
// Source: batch_list.
func (p *pickler) batchItems(items []any) error {
	for from := 0; from < len(items); from += batchSize {
		batch := items[from:min(from+batchSize, len(items))]
		if len(batch) > 1 {
			if err := p.marked(opAppends, batch...); err != nil {
				return err
			}
			continue
		}
		if err := p.save(batch[0]); err != nil {
			return err
		}
		p.emit(opAppend)
	}
	return nil
}

// batchPairs writes the items of a dict that is not exactly a dict.
// Source: batch_dict.
func (p *pickler) batchPairs(pairs []pyobj.Entry) error {
	for from := 0; from < len(pairs); from += batchSize {
		batch := pairs[from:min(from+batchSize, len(pairs))]
		if len(batch) > 1 {
			if err := p.marked(opSetItems, flat(batch)...); err != nil {
				return err
			}
			continue
		}
		if err := p.savePair(batch[0]); err != nil {
			return err
		}
	}
	return nil
}

func (p *pickler) savePair(e pyobj.Entry) error {
	if err := p.save(e.Key); err != nil {
		return err
	}
	if err := p.save(e.Value); err != nil {
		return err
	}
	p.emit(opSetItem)
	return nil
}

func flat(pairs []pyobj.Entry) []any {
	out := make([]any, 0, 2*len(pairs))
	for _, e := range pairs {
		out = append(out, e.Key, e.Value)
	}
	return out
}

func (p *pickler) saveDict(d *pyobj.Dict) error {
	pairs := d.Entries()
	switch d.Kind {
	case pyobj.PlainDict:
		p.emit(opEmptyDict)
		p.memoize(d)
		return p.exactPairs(pairs)
	case pyobj.Counter:
		inner := &pyobj.Dict{}
		for _, e := range pairs {
			inner.Set(e.Key, e.Value)
		}
		return p.reduce(&Reduction{Func: collectionName("Counter"), Args: tuple(inner)}, d)
	case pyobj.DefaultDict:
		r := &Reduction{Func: collectionName("defaultdict"), Args: &pyobj.Tuple{}, Pairs: pairs}
		if d.Factory != nil {
			r.Args = tuple(d.Factory)
		}
		return p.reduce(r, d)
	case pyobj.OrderedDict:
	}
	return p.reduce(&Reduction{
		Func: collectionName("OrderedDict"), Args: &pyobj.Tuple{}, Pairs: pairs,
		State: d.State, HasState: d.State != nil,
	}, d)
}

func collectionName(name string) pyobj.Global { return pyobj.Global{Module: "collections", Name: name} }

// exactPairs writes the items of exactly a dict, which after a full batch tries
// another, even if that is empty. Source: batch_dict_exact.
func (p *pickler) exactPairs(pairs []pyobj.Entry) error {
	if len(pairs) == 0 {
		return nil
	}
	if len(pairs) == 1 {
		return p.savePair(pairs[0])
	}
	for from := 0; ; from += batchSize {
		batch := pairs[from:min(from+batchSize, len(pairs))]
		if err := p.marked(opSetItems, flat(batch)...); err != nil {
			return err
		}
		if len(batch) < batchSize {
			return nil
		}
	}
}

func (p *pickler) saveSet(s *pyobj.Set) error {
	name := "set"
	if s.Frozen {
		name = "frozenset"
	}
	return p.reduce(&Reduction{Func: builtinName(name), Args: tuple(&pyobj.List{Items: s.Items})}, s)
}
