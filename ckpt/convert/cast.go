package convert

import (
	"encoding/binary"
	"fmt"
	"math"

	"rejoin/tensor"
)

// Targets are the dtypes that elements can be converted to.
var Targets = []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16, tensor.BFloat16}

// loss is what a conversion to a narrower dtype lost.
type loss struct {
	from, to tensor.DType
	tensors  int
	maxRel   float64
	infinite int // finite elements that became infinite
	zero     int // elements that became zero
	firstKey string
}

func (l *loss) String() string {
	text := fmt.Sprintf("%v → %v rounds: %d tensors, largest relative error %.2g", l.from, l.to, l.tensors, l.maxRel)
	if l.infinite > 0 {
		text += fmt.Sprintf("; %d finite elements became infinite, the first in %s", l.infinite, l.firstKey)
	}
	if l.zero > 0 {
		text += fmt.Sprintf("; %d elements became zero", l.zero)
	}
	return text
}

// widens reports whether every value of from is one of to.
func widens(from, to tensor.DType) bool {
	if from == to || to == tensor.Float64 {
		return true
	}
	switch from {
	case tensor.Float64:
		return false
	case tensor.Float32:
		return false // to is a half or a bfloat16
	case tensor.Float16, tensor.BFloat16:
		return to == tensor.Float32
	case tensor.Float8E8M0FNU: // 2^-127 to 2^127
		return to != tensor.Float16
	default: // the other 8-bit floats
		return true
	}
}

// cast converts the elements of t, a real floating-point tensor, as torch's
// Tensor.to(dtype) does: through float32, rounded to nearest even. The result
// is contiguous and on a storage of its own.
func cast(key string, t *tensor.Tensor, to tensor.DType, l *loss) (*tensor.Tensor, error) {
	raw, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	decode, ok := tensor.Float64Decoder(t.DType)
	if !ok {
		return nil, fmt.Errorf("%v elements cannot be converted to %v", t.DType, to)
	}
	size, width, n := t.DType.Size(), to.Size(), t.NumElements()
	out := make([]byte, n*width)
	back, _ := tensor.Float64Decoder(to)
	narrow := !widens(t.DType, to)
	for i := range n {
		v := decode(raw[i*size:])
		encode(out[i*width:], v, to)
		if narrow {
			l.note(key, v, back(out[i*width:]))
		}
	}
	if narrow {
		l.tensors++
	}
	return &tensor.Tensor{
		DType: to, Shape: t.Shape, Stride: tensor.ContiguousStride(t.Shape), RequiresGrad: t.RequiresGrad,
		Storage: &tensor.Storage{Data: out, Device: "cpu"},
	}, nil
}

func (l *loss) note(key string, v, got float64) {
	switch {
	case v == got || math.IsNaN(v):
	case math.IsInf(got, 0):
		if l.infinite++; l.firstKey == "" {
			l.firstKey = key
		}
	case got == 0:
		l.zero++
	default:
		l.maxRel = max(l.maxRel, math.Abs(got-v)/math.Abs(v))
	}
}

func encode(dst []byte, v float64, to tensor.DType) {
	le := binary.LittleEndian
	switch to {
	case tensor.Float64:
		le.PutUint64(dst, math.Float64bits(v))
	case tensor.Float32:
		le.PutUint32(dst, math.Float32bits(float32(v)))
	case tensor.BFloat16:
		le.PutUint16(dst, bfloat16(float32(v)))
	case tensor.Float16:
		le.PutUint16(dst, float16(float32(v)))
	default:
		panic(fmt.Sprintf("convert: %v is not one of Targets", to))
	}
}

// bfloat16 rounds to nearest even. Source: c10::detail::round_to_nearest_even.
func bfloat16(f float32) uint16 {
	if f != f {
		return 0x7fc0
	}
	bits := math.Float32bits(f)
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// float16 rounds to nearest even, IEEE 754 binary16.
func float16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := bits & 0x7fffffff
	switch {
	case magnitude > 0x7f800000:
		return sign | 0x7e00
	case magnitude >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case magnitude < 0x38800000: // below 2^-14: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(magnitude))*0x1p24))
	}
	rounded := magnitude + 0xfff + magnitude>>13&1
	return sign | uint16((rounded-0x38000000)>>13)
}
