package graph

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	gtensor "gorgonia.org/tensor"
)

// A buffer is the storage of a node, for the largest batch: float32, or int64
// for classes.
type buffer struct {
	f     []float32
	class []int64
}

// batch is what varies from run to run; all operations of a graph share one.
type batch struct {
	rows    int     // of the current batch
	divisor float32 // of the loss
}

// operation is every op of this package. Gorgonia calls Do; a Program calls run
// with buffers that it looked up once.
type operation struct {
	id     uint64 // unique: Gorgonia merges nodes whose ops hash alike
	name   string
	typ    hm.Type
	arity  int
	shape  gtensor.Shape
	out    buffer
	value  gorgonia.Value // a view of out
	run    func(in []buffer) error
	param  int // the parameter whose gradient run adds to; -1 for none
	wrt    []bool
	derive func(inputs gorgonia.Nodes, output, grad *gorgonia.Node) (gorgonia.Nodes, error)
}

var (
	_ gorgonia.SDOp = (*operation)(nil)

	scalarType = gtensor.Float32
	vectorType = gorgonia.TensorType{Dims: 1, Of: gtensor.Float32}
	matrixType = gorgonia.TensorType{Dims: 2, Of: gtensor.Float32}
	classType  = gorgonia.TensorType{Dims: 1, Of: gtensor.Int64}
)

// Arity, Type and InferShape describe the op to Gorgonia's type system.
func (o *operation) Arity() int { return o.arity }

// Type is the op's function type.
func (o *operation) Type() hm.Type { return o.typ }

// InferShape is the output's shape for the largest batch.
func (o *operation) InferShape(...gorgonia.DimSizer) (gtensor.Shape, error) { return o.shape, nil }

// ReturnsPtr, CallsExtern and OverwritesInput keep Gorgonia from writing in
// place into a buffer that an op owns.
func (o *operation) ReturnsPtr() bool { return true }

// CallsExtern is false: Gorgonia need not lock a thread.
func (o *operation) CallsExtern() bool { return false }

// OverwritesInput is -1, no input.
func (o *operation) OverwritesInput() int { return -1 }

// WriteHash and Hashcode make every op unique.
func (o *operation) WriteHash(h hash.Hash) { fmt.Fprintf(h, "rejoin %s %d", o.name, o.id) }

// Hashcode is a 32-bit hash of WriteHash.
func (o *operation) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

func (o *operation) String() string { return fmt.Sprintf("%s#%d", o.name, o.id) }

// Do runs the op for Gorgonia's machines. They run it in a goroutine of theirs,
// so a panic becomes an error here.
func (o *operation) Do(inputs ...gorgonia.Value) (v gorgonia.Value, err error) {
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("graph: %v: %v", o, r)
		}
	}()
	in := make([]buffer, len(inputs))
	for i, value := range inputs {
		if in[i], err = bufferOf(value); err != nil {
			return nil, fmt.Errorf("graph: %v: input %d: %w", o, i, err)
		}
	}
	if err := o.run(in); err != nil {
		return nil, err
	}
	return o.value, nil
}

// DiffWRT says which inputs a gradient is wanted for.
func (o *operation) DiffWRT(int) []bool { return o.wrt }

// SymDiff gives the gradients' nodes.
func (o *operation) SymDiff(inputs gorgonia.Nodes, output, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	if o.derive == nil {
		return nil, fmt.Errorf("graph: %v has no derivative", o)
	}
	return o.derive(inputs, output, grad)
}

// bufferOf is the storage of a Gorgonia value.
func bufferOf(v gorgonia.Value) (buffer, error) {
	switch v := v.(type) {
	case *gorgonia.F32:
		return buffer{f: []float32{float32(*v)}}, nil
	case *gtensor.Dense:
		switch data := v.Data().(type) {
		case []float32:
			return buffer{f: data}, nil
		case []int64:
			return buffer{class: data}, nil
		case float32:
			return buffer{f: v.Float32s()}, nil
		}
	}
	return buffer{}, fmt.Errorf("a value of type %T is neither float32 nor int64", v)
}

// dense is a Gorgonia tensor that shares values.
func dense(values any, shape ...int) *gtensor.Dense {
	return gtensor.New(gtensor.WithShape(shape...), gtensor.WithBacking(values))
}
