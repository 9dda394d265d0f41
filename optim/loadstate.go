package optim

import (
	"encoding/binary"
	"fmt"
	"math"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// stateReader reads the entry of one parameter's state; the first error sticks.
type stateReader struct {
	number  int64
	entry   *pyobj.Dict
	param   *Param
	known   map[any]bool // the keys that were read
	inexact *inexactSteps
	err     error
}

func (r *stateReader) fail(key string, err error) {
	if err != nil && r.err == nil {
		r.err = stateError(fmt.Sprintf("state[%d][%q]", r.number, key), err)
	}
}

// tensor reads a tensor of the parameter's shape.
func (r *stateReader) tensor(key string) []float32 {
	r.known[key] = true
	t, err := stateTensor(r.entry, key)
	if err == nil && !t.SameShape(r.param.Shape) {
		err = fmt.Errorf("has shape %v, expected %v of parameter %q", t.Shape, r.param.Shape, r.param.Name)
	}
	if err != nil {
		r.fail(key, err)
		return nil
	}
	values := newMoment(len(r.param.Values))
	r.fail(key, t.ReadFloat32(values))
	return values
}

func stateTensor(entry *pyobj.Dict, key string) (*tensor.Tensor, error) {
	v, ok := entry.Get(key)
	if !ok {
		return nil, errMissing
	}
	t, err := pyobj.AsTensor(v)
	if err != nil {
		return nil, err
	}
	return t, t.Check()
}

// step reads a step count: a tensor of one element of any type, or a number, as
// before torch 1.12. It is a whole number, which float32, in which torch counts,
// holds exactly up to 2^24.
func (r *stateReader) step() float32 {
	r.known["step"] = true
	v, ok := r.entry.Get("step")
	if !ok {
		r.fail("step", errMissing)
		return 0
	}
	f, err := readScalar(v)
	if err == nil && !(f >= 0 && f <= maxCount && f == math.Trunc(f)) {
		err = fmt.Errorf("%v is not a step count", f)
	}
	if err != nil {
		r.fail("step", err)
		return 0
	}
	r.inexact.note(v, f)
	return float32(f)
}

// exactSteps are up to where types count every step.
var exactSteps = map[tensor.DType]float64{tensor.BFloat16: 1 << 8, tensor.Float16: 1 << 11, tensor.Float32: 1 << 24}

// inexactSteps collects the step counts that their type in the file, or torch's
// float32, cannot hold exactly.
type inexactSteps struct {
	count       int
	first       float64
	dtype       tensor.DType
	limit, unit float64
}

func (s *inexactSteps) note(v any, f float64) {
	dtype := tensor.Float32
	if t, err := pyobj.AsTensor(v); err == nil {
		if _, short := exactSteps[t.DType]; short {
			dtype = t.DType
		}
	}
	limit := exactSteps[dtype]
	if f <= limit {
		return
	}
	if s.count++; s.count == 1 {
		s.first, s.dtype, s.limit = f, dtype, limit
		s.unit = 2 * math.Exp2(math.Floor(math.Log2(f/limit)))
	}
}

func (s *inexactSteps) notices() []string {
	if s.count == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the step count of %d parameters, %v, cannot be exact: %v counts every step only up to %v, and there only in steps of %v; "+
		"the optimizer's bias correction goes on from it as it stands", s.count, s.first, s.dtype, s.limit, s.unit)}
}

// readScalar reads a number, or a tensor of one element: an option that was
// given to torch as a tensor is saved as one.
func readScalar(v any) (float64, error) {
	t, err := pyobj.AsTensor(v)
	if err != nil {
		return pyobj.AsFloat(v)
	}
	if err := t.Check(); err != nil {
		return 0, err
	}
	if n := t.NumElements(); n != 1 {
		return 0, fmt.Errorf("expected one element, found %v", t)
	}
	if t.DType == tensor.Float64 || t.DType == tensor.Int64 || t.DType == tensor.Int32 {
		return readWide(t)
	}
	var value [1]float32
	if err := t.ReadFloat32(value[:]); err != nil {
		return 0, err
	}
	return float64(value[0]), nil
}

// readWide reads one element of a type that float32 does not hold.
func readWide(t *tensor.Tensor) (float64, error) {
	raw, err := t.Bytes()
	if err != nil {
		return 0, err
	}
	switch t.DType {
	case tensor.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(raw)), nil
	case tensor.Int64:
		return float64(int64(binary.LittleEndian.Uint64(raw))), nil
	default:
		return float64(int32(binary.LittleEndian.Uint32(raw))), nil
	}
}
