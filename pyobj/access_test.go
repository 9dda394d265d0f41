package pyobj

import (
	"testing"

	"rejoin/tensor"
)

func TestAsTensor(t *testing.T) {
	x := tensor.FromFloat32([]float32{1}, 1)
	for _, v := range []any{x, &Parameter{Data: x}, &TypedTensor{Data: x, Class: Global{"torch", "Tensor"}}} {
		if got, err := AsTensor(v); err != nil || got != x {
			t.Errorf("%s: %v, %v", TypeName(v), got, err)
		}
	}
	for _, v := range []any{nil, 1, &List{}, &TypedStorage{Class: Global{"torch", "FloatStorage"}}} {
		if _, err := AsTensor(v); err == nil {
			t.Errorf("%s is a tensor", TypeName(v))
		}
	}
	if got := TypeName(&TypedStorage{Class: Global{"torch", "FloatStorage"}}); got != "torch.FloatStorage" {
		t.Errorf("type name %s", got)
	}
}
