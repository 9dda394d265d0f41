package safetensors

import "rejoin/tensor"

// dtypeRank lists the format's dtypes in the library's own order, by which its
// writer sorts, largest first. Source: enum Dtype, safetensors 0.8, tensor.rs.
var dtypeRank = []struct {
	name  string
	bits  int
	dtype tensor.DType // Invalid where package tensor has no such type
}{
	{"BOOL", 8, tensor.Bool},
	{"F4", 4, tensor.Invalid},
	{"F6_E2M3", 6, tensor.Invalid},
	{"F6_E3M2", 6, tensor.Invalid},
	{"U8", 8, tensor.UInt8},
	{"I8", 8, tensor.Int8},
	{"F8_E5M2", 8, tensor.Float8E5M2},
	{"F8_E4M3", 8, tensor.Float8E4M3FN},
	{"F8_E8M0", 8, tensor.Float8E8M0FNU},
	{"F8_E4M3FNUZ", 8, tensor.Float8E4M3FNUZ},
	{"F8_E5M2FNUZ", 8, tensor.Float8E5M2FNUZ},
	{"I16", 16, tensor.Int16},
	{"U16", 16, tensor.UInt16},
	{"F16", 16, tensor.Float16},
	{"BF16", 16, tensor.BFloat16},
	{"I32", 32, tensor.Int32},
	{"U32", 32, tensor.UInt32},
	{"F32", 32, tensor.Float32},
	{"C64", 64, tensor.Complex64},
	{"F64", 64, tensor.Float64},
	{"I64", 64, tensor.Int64},
	{"U64", 64, tensor.UInt64},
}

// rankOf is the place of a dtype in dtypeRank, -1 if the format lacks it.
func rankOf(d tensor.DType) int {
	for i, r := range dtypeRank {
		if r.dtype == d && d != tensor.Invalid {
			return i
		}
	}
	return -1
}

// byName finds a dtype by the format's name; ok is false for one of a newer format.
func byName(name string) (bits int, d tensor.DType, ok bool) {
	for _, r := range dtypeRank {
		if r.name == name {
			return r.bits, r.dtype, true
		}
	}
	return 0, tensor.Invalid, false
}
