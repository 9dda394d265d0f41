package pyobj

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Float returns a numeric scalar's value.
func (s *NumpyScalar) Float() (float64, error) {
	order := binary.ByteOrder(binary.LittleEndian)
	if s.BigEndian {
		order = binary.BigEndian
	}
	d := s.Data
	switch {
	case s.Dtype == "f8" && len(d) == 8:
		return math.Float64frombits(order.Uint64(d)), nil
	case s.Dtype == "f4" && len(d) == 4:
		return float64(math.Float32frombits(order.Uint32(d))), nil
	case s.Dtype == "i8" && len(d) == 8:
		return float64(int64(order.Uint64(d))), nil
	case s.Dtype == "u8" && len(d) == 8:
		return float64(order.Uint64(d)), nil
	case s.Dtype == "i4" && len(d) == 4:
		return float64(int32(order.Uint32(d))), nil
	case s.Dtype == "u4" && len(d) == 4:
		return float64(order.Uint32(d)), nil
	}
	return 0, fmt.Errorf("numpy scalar of dtype %q with %d bytes is not a number known here", s.Dtype, len(d))
}
