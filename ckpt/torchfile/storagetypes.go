package torchfile

import (
	"rejoin/pyobj"
	"rejoin/tensor"
)

// storageDTypes are the legacy storage classes.
// Source: torch.storage._dtype_to_storage_type_map, torch 2.14.
var storageDTypes = map[string]tensor.DType{
	"DoubleStorage": tensor.Float64, "FloatStorage": tensor.Float32, "HalfStorage": tensor.Float16,
	"BFloat16Storage": tensor.BFloat16, "LongStorage": tensor.Int64, "IntStorage": tensor.Int32,
	"ShortStorage": tensor.Int16, "CharStorage": tensor.Int8, "ByteStorage": tensor.UInt8,
	"BoolStorage": tensor.Bool, "ComplexDoubleStorage": tensor.Complex128, "ComplexFloatStorage": tensor.Complex64,
	// Quantized storages: the integers they are made of.
	"QInt8Storage": tensor.Int8, "QUInt8Storage": tensor.UInt8, "QInt32Storage": tensor.Int32,
	"QUInt4x2Storage": tensor.UInt8, "QUInt2x4Storage": tensor.UInt8,
}

// storageNames are the classes that a dtype is written with. A dtype without
// one goes over untypedStorage.
var storageNames = func() map[tensor.DType]string {
	names := map[tensor.DType]string{}
	for name, d := range storageDTypes {
		if name[0] != 'Q' {
			names[d] = name
		}
	}
	return names
}()

var untypedStorage = pyobj.Global{Module: "torch.storage", Name: "UntypedStorage"}

// storageDType is the element type of a storage class; bytes for an untyped one.
func storageDType(g pyobj.Global) (tensor.DType, bool) {
	switch g.Module {
	case "torch", "torch.cuda", "torch.storage":
	default:
		return 0, false
	}
	if g.Name == "UntypedStorage" || g.Name == "_UntypedStorage" {
		return tensor.UInt8, true
	}
	d, ok := storageDTypes[g.Name]
	return d, ok
}

// storageClass is the class that d is written with.
func storageClass(d tensor.DType) pyobj.Global {
	if name, ok := storageNames[d]; ok {
		return pyobj.Global{Module: "torch", Name: name}
	}
	return untypedStorage
}
