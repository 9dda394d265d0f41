package torchfile

import (
	"errors"
	"fmt"

	"rejoin/ckpt/torchfile/pickle"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// maxDims is the number of dimensions that torch allows.
const maxDims = 64

// callArgs reads a call's arguments one by one; the first error stays.
type callArgs struct {
	*pickle.Call
	r    *rebuilder
	next int
	err  error
}

// build makes the value of a call of one of torch's functions.
func (r *rebuilder) build(c *pickle.Call) (any, bool, error) {
	f, ok := buildFuncs[c.Func]
	if !ok {
		return nil, false, nil
	}
	args := &callArgs{Call: c, r: r}
	value, err := f(args)
	if errors.Is(err, errOpaque) {
		return nil, false, nil
	}
	if args.err != nil {
		err = args.err
	}
	if err != nil {
		return nil, true, fmt.Errorf("%v: %w", c.Func, err)
	}
	return value, true, nil
}

func (c *callArgs) more() bool { return c.next < len(c.Args) }

func (c *callArgs) fail(want string, found any) {
	if c.err == nil {
		c.err = fmt.Errorf("argument %d is %s, expected %s", c.next, pyobj.TypeName(found), want)
	}
}

// arg returns the next argument, nil past the end.
func (c *callArgs) arg() any {
	if !c.more() {
		if c.err == nil {
			c.err = fmt.Errorf("has %d arguments, expected more", len(c.Args))
		}
		return nil
	}
	c.next++
	return c.Args[c.next-1]
}

// peek looks at the next argument, nil past the end.
func (c *callArgs) peek() any {
	if !c.more() {
		return nil
	}
	return c.Args[c.next]
}

func (c *callArgs) storage() *pyobj.TypedStorage {
	v := c.arg()
	s, ok := v.(*pyobj.TypedStorage)
	if !ok {
		c.fail("a storage", v)
		return &pyobj.TypedStorage{Storage: &tensor.Storage{}}
	}
	return s
}

func (c *callArgs) int() int {
	v := c.arg()
	n, ok := v.(int64)
	if !ok {
		c.fail("an int", v)
	}
	return int(n)
}

func (c *callArgs) bool() bool {
	v := c.arg()
	b, ok := v.(bool)
	if !ok {
		c.fail("a bool", v)
	}
	return b
}

func (c *callArgs) dtype() tensor.DType {
	v := c.arg()
	d, ok := v.(tensor.DType)
	if !ok {
		c.fail("a dtype that is known", v)
	}
	return d
}

// ints reads a tuple of sizes or strides.
func (c *callArgs) ints() []int {
	v := c.arg()
	items, err := pyobj.AsItems(v)
	if err != nil {
		c.fail("a tuple", v)
		return nil
	}
	if len(items) > maxDims {
		c.err = fmt.Errorf("has %d dimensions, at most %d are possible", len(items), maxDims)
		return nil
	}
	out := make([]int, len(items))
	for i, item := range items {
		n, ok := item.(int64)
		if !ok {
			c.fail("a tuple of ints", item)
			return nil
		}
		out[i] = int(n)
	}
	return out
}

// buildTensor makes (storage, offset, size, stride[, requires_grad, hooks[, metadata]]).
func buildTensor(c *callArgs) (any, error) {
	s := c.storage()
	t := &tensor.Tensor{DType: s.DType, Storage: s.Storage}
	t.Offset, t.Shape, t.Stride = c.int(), c.ints(), c.ints()
	if c.more() {
		t.RequiresGrad = c.bool()
	}
	if c.err != nil {
		return nil, c.err
	}
	return c.r.tensorOf(t, c.KeyPath), nil
}

// errOpaque leaves a call to be described: it is well formed, but of a kind
// that package tensor does not have.
var errOpaque = errors.New("not of a known kind")

// buildTensorV3 makes (untyped storage, offset, size, stride, requires_grad, hooks, dtype[, metadata]).
func buildTensorV3(c *callArgs) (any, error) {
	s := c.storage()
	t := &tensor.Tensor{Storage: s.Storage}
	t.Offset, t.Shape, t.Stride = c.int(), c.ints(), c.ints()
	t.RequiresGrad = c.bool()
	c.arg()
	if _, unknown := c.peek().(pyobj.Global); unknown && c.err == nil {
		return nil, errOpaque
	}
	t.DType = c.dtype()
	if c.err != nil {
		return nil, c.err
	}
	return c.r.tensorOf(t, c.KeyPath), nil
}

// buildMeta makes (dtype, size, stride, requires_grad): a shape without bytes.
func buildMeta(c *callArgs) (any, error) {
	t := &tensor.Tensor{DType: c.dtype(), Shape: c.ints(), Stride: c.ints(), RequiresGrad: c.bool()}
	if c.err != nil {
		return nil, c.err
	}
	return c.r.tensorOf(t, c.KeyPath), nil
}

// buildParameter makes (data, requires_grad, hooks[, state]).
func buildParameter(c *callArgs) (any, error) {
	v := c.arg()
	data, ok := v.(*tensor.Tensor)
	if !ok {
		c.fail("a tensor", v)
		return nil, c.err
	}
	p := &pyobj.Parameter{Data: data}
	data.RequiresGrad = c.bool()
	c.arg()
	if c.more() {
		p.State = c.arg()
	}
	return p, nil
}

// buildFromType makes (function, class, its arguments, state): a tensor that has
// a subclass or attributes. The function must be one that is known here.
func buildFromType(c *callArgs) (any, error) {
	f, ok1 := c.arg().(pyobj.Global)
	class, ok2 := c.arg().(pyobj.Global)
	args, ok3 := c.arg().(*pyobj.Tuple)
	state := c.arg()
	if c.err != nil || !ok1 || !ok2 || !ok3 {
		c.fail("(function, class, arguments, state)", nil)
		return nil, c.err
	}
	inner, ok, err := c.r.build(&pickle.Call{Func: f, Args: args.Items, KeyPath: c.KeyPath})
	if err != nil {
		return nil, err
	}
	data, isTensor := inner.(*tensor.Tensor)
	if !ok || !isTensor {
		return nil, fmt.Errorf("a tensor is made by %v, which is not known", f)
	}
	return &pyobj.TypedTensor{Data: data, Class: class, State: state}, nil
}

func buildSize(c *callArgs) (any, error) {
	if len(c.Args) == 0 {
		return pyobj.Size{}, nil
	}
	return pyobj.Size(c.ints()), nil
}

func buildDevice(c *callArgs) (any, error) {
	v := c.arg()
	kind, ok := v.(string)
	if !ok {
		c.fail("a str", v)
		return nil, c.err
	}
	if !c.more() {
		return pyobj.Device(kind), nil
	}
	return pyobj.Device(fmt.Sprintf("%s:%d", kind, c.int())), nil
}

// buildDescribed keeps as a description what is harmless and rarely needed:
// a torch.layout, or TorchVersion, which is a str.
func buildDescribed(c *callArgs) (any, error) {
	return &pyobj.Object{Class: c.Func, Args: &pyobj.Tuple{Items: c.Args}, Called: true}, nil
}
