package pyobj

import (
	"fmt"
	"math/big"

	"rejoin/tensor"
)

type tensorDType = tensor.DType

// TypeName is what Python calls the type of v, for error messages.
func TypeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case int, int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case complex128:
		return "complex"
	case string:
		return "str"
	case Bytes:
		return "bytes"
	case *ByteArray:
		return "bytearray"
	case *List:
		return "list"
	case *Tuple:
		return "tuple"
	case *Dict:
		return [...]string{"dict", "OrderedDict", "Counter", "defaultdict"}[v.Kind]
	case *Set:
		return "set"
	case Global:
		return "class " + v.String()
	case *Object:
		return v.Class.String()
	case *tensor.Tensor:
		return "Tensor"
	case *Parameter:
		return "Parameter"
	case *TypedTensor:
		return v.Class.String()
	case *TypedStorage:
		return v.Class.String()
	case Size:
		return "torch.Size"
	case Device:
		return "torch.device"
	case tensor.DType:
		return "torch.dtype"
	case *NDArray:
		return "numpy array"
	case *NumpyScalar:
		return "numpy scalar"
	default:
		return fmt.Sprintf("%T", v)
	}
}

// AsInt returns v as an int64: an int, a bool, or a float without a fraction.
func AsInt(v any) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case int:
		return int64(v), nil
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case float64:
		if i := int64(v); float64(i) == v {
			return i, nil
		}
	}
	return 0, fmt.Errorf("expected an int, found %s %v", TypeName(v), v)
}

// AsFloat returns v as a float64: a float, or an int.
func AsFloat(v any) (float64, error) {
	switch v := v.(type) {
	case float64:
		return v, nil
	case int64:
		return float64(v), nil
	case int:
		return float64(v), nil
	case *NumpyScalar:
		return v.Float()
	}
	return 0, fmt.Errorf("expected a number, found %s", TypeName(v))
}

// AsItems returns the items of a list, a tuple or a Size.
func AsItems(v any) ([]any, error) {
	switch v := v.(type) {
	case *List:
		return v.Items, nil
	case *Tuple:
		return v.Items, nil
	case Size:
		items := make([]any, len(v))
		for i, n := range v {
			items[i] = int64(n)
		}
		return items, nil
	}
	return nil, fmt.Errorf("expected a list, found %s", TypeName(v))
}

// AsDict returns v as a dict.
func AsDict(v any) (*Dict, error) {
	if d, ok := v.(*Dict); ok {
		return d, nil
	}
	return nil, fmt.Errorf("expected a dict, found %s", TypeName(v))
}

// AsTensor returns v, or the data of a Parameter or TypedTensor, as a tensor.
func AsTensor(v any) (*tensor.Tensor, error) {
	switch v := v.(type) {
	case *tensor.Tensor:
		return v, nil
	case *Parameter:
		return v.Data, nil
	case *TypedTensor:
		return v.Data, nil
	}
	return nil, fmt.Errorf("expected a tensor, found %s", TypeName(v))
}
