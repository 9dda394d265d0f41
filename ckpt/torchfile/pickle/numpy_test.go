package pickle

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"rejoin/pyobj"
)

// numpyPickle is a numpy array's pickle in the spelling of module, with u4
// elements in the given byte order.
func numpyPickle(module, order, shape, data string) string {
	size := string(binary.LittleEndian.AppendUint32(nil, uint32(len(data))))
	return "\x80\x02c" + module + "\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R(K\x01" + shape +
		"cnumpy\ndtype\nU\x02u4\x89\x88\x87R(K\x03U\x01" + order + "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89B" + size + data + "tb."
}

// numpy's own numbers are values, in the spelling of numpy 1 and of numpy 2, and
// nothing is run for them (D30, deepmodeling/deepmd-kit#4147).
func TestNumpyScalar(t *testing.T) {
	for _, module := range numpyModules {
		// {"lr": np.float64(0.1)}
		in := "\x80\x02}U\x02lrc" + module + "\nscalar\ncnumpy\ndtype\nU\x02f8\x89\x88\x87RC\x08\x9a\x99\x99\x99\x99\x99\xb9\x3f\x86Rs."
		lr, _ := load(t, in, Options{}).(*pyobj.Dict).Get("lr")
		if f, err := pyobj.AsFloat(lr); err != nil || f != 0.1 {
			t.Errorf("%s: %#v is %v, %v; expected 0.1", module, lr, f, err)
		}
	}
}

// (D30, deepmodeling/deepmd-kit#4147): a random state's array, likewise.
func TestNumpyArray(t *testing.T) {
	data := "\x01\x00\x00\x00\x02\x00\x00\x00"
	for _, module := range numpyModules {
		got := load(t, numpyPickle(module, "<", "K\x02\x85", data), Options{})
		want := &pyobj.NDArray{Shape: []int{2}, Dtype: "u4", Data: []byte(data), Module: module}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v", got)
		}
	}
	if big := load(t, numpyPickle(numpyModules[0], ">", "K\x02\x85", data), Options{}).(*pyobj.NDArray); !big.BigEndian {
		t.Error("byte order lost")
	}
}

func TestNumpyRefuses(t *testing.T) {
	tests := []struct{ name, in, problem string }{
		{"too few bytes", numpyPickle(numpyModules[0], "<", "K\x03\x85", "\x00\x00\x00\x00"), "has 4 bytes, expected 12"},
		{"negative size", numpyPickle(numpyModules[0], "<", "J\xff\xff\xff\xff\x85", ""), "expected a size"},
		{"overflow", numpyPickle(numpyModules[0], "<", "("+strings.Repeat("J\xff\xff\xff\x7f", 4)+"t", ""), "overflows"},
		{"many dimensions", numpyPickle(numpyModules[0], "<", "("+strings.Repeat("K\x01", 65)+"t", ""), "65 dimensions"},
		{"no state", "cnumpy._core.multiarray\n_reconstruct\n)R.", "_reconstruct"},
		{"scalar of wrong size", "cnumpy._core.multiarray\nscalar\ncnumpy\ndtype\nU\x02f8\x89\x88\x87RC\x01a\x86R.", "has 1 bytes, expected 8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Load([]byte(tt.in), Options{})
			if err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("error %v, want %q", err, tt.problem)
			}
		})
	}
}
