package tensor

import "fmt"

// DType is an element type, named as torch names it.
type DType uint8

// The element types that torch.save and safetensors can write.
const (
	Invalid DType = iota
	Float64
	Float32
	Float16
	BFloat16
	Int64
	Int32
	Int16
	Int8
	UInt64
	UInt32
	UInt16
	UInt8
	Bool
	Complex128
	Complex64
	Complex32
	Float8E4M3FN
	Float8E5M2
	Float8E4M3FNUZ
	Float8E5M2FNUZ
	Float8E8M0FNU
)

type dtypeInfo struct {
	name string
	size int
}

var dtypes = [...]dtypeInfo{
	Invalid:        {"invalid", 0},
	Float64:        {"float64", 8},
	Float32:        {"float32", 4},
	Float16:        {"float16", 2},
	BFloat16:       {"bfloat16", 2},
	Int64:          {"int64", 8},
	Int32:          {"int32", 4},
	Int16:          {"int16", 2},
	Int8:           {"int8", 1},
	UInt64:         {"uint64", 8},
	UInt32:         {"uint32", 4},
	UInt16:         {"uint16", 2},
	UInt8:          {"uint8", 1},
	Bool:           {"bool", 1},
	Complex128:     {"complex128", 16},
	Complex64:      {"complex64", 8},
	Complex32:      {"complex32", 4},
	Float8E4M3FN:   {"float8_e4m3fn", 1},
	Float8E5M2:     {"float8_e5m2", 1},
	Float8E4M3FNUZ: {"float8_e4m3fnuz", 1},
	Float8E5M2FNUZ: {"float8_e5m2fnuz", 1},
	Float8E8M0FNU:  {"float8_e8m0fnu", 1},
}

// Size is the number of bytes of one element; 0 for Invalid.
func (d DType) Size() int {
	if int(d) >= len(dtypes) {
		return 0
	}
	return dtypes[d].size
}

// String is torch's name without the "torch." in front, such as "bfloat16".
func (d DType) String() string {
	if int(d) >= len(dtypes) {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Valid reports whether d is one of the element types above.
func (d DType) Valid() bool { return d != Invalid && int(d) < len(dtypes) }

var dtypeAliases = map[string]DType{
	"double": Float64, "float": Float32, "half": Float16, "long": Int64, "int": Int32,
	"short": Int16, "chalf": Complex32, "cfloat": Complex64, "cdouble": Complex128,
}

// ParseDType is the inverse of [DType.String]; it also knows torch's aliases
// (half, long …).
func ParseDType(name string) (DType, error) {
	for d, info := range dtypes {
		if info.name == name && DType(d).Valid() {
			return DType(d), nil
		}
	}
	if d, ok := dtypeAliases[name]; ok {
		return d, nil
	}
	return Invalid, fmt.Errorf("unknown dtype %q", name)
}
