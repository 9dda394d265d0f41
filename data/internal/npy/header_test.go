package npy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"rejoin/tensor"
)

func file(version byte, header string) []byte {
	out := append([]byte(Magic), version, 0)
	if version == 1 {
		out = binary.LittleEndian.AppendUint16(out, uint16(len(header)))
	} else {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(header)))
	}
	return append(out, header...)
}

func TestReadHeader(t *testing.T) {
	for header, want := range map[string]Header{
		"{'descr': '<f4', 'fortran_order': False, 'shape': (7, 3), }   \n": {
			Shape: []int{7, 3}, ItemSize: 4, Size: 84, Fields: []Field{{DType: tensor.Float32, size: 4}},
		},
		`{"descr": ">i2", "fortran_order": True, "shape": (5L,)}`: {
			Shape: []int{5}, ItemSize: 2, Size: 10, Fortran: true, Fields: []Field{{DType: tensor.Int16, BigEndian: true, size: 2}},
		},
		"{'shape': (), 'descr': '|b1', 'fortran_order': False}": {
			Shape: []int{}, ItemSize: 1, Size: 1, Fields: []Field{{DType: tensor.Bool, size: 1}},
		},
		"{'descr': [('x', '<f4', (3,)), ('', '|V4'), (('a title', 'n'), '<U3'), ('in', [('a', '<i4')], 2)], 'fortran_order': False, 'shape': (2,)}": {
			Shape: []int{2}, ItemSize: 36, Size: 72, Fields: []Field{
				{Name: "x", DType: tensor.Float32, Shape: []int{3}, size: 12},
				{Name: "n", Problem: "text (<U3)", Offset: 16, size: 12},
				{Name: "in", Problem: "a structure", Shape: []int{2}, Offset: 28, size: 8},
			},
		},
		"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,)}": {
			Shape: []int{1}, ItemSize: 8, Size: 8, Fields: []Field{{Problem: "dates (<M8[ns])", size: 8}},
		},
	} {
		for version := byte(1); version <= 3; version++ {
			raw := file(version, header)
			got, err := ReadHeader(bytes.NewReader(append(raw, 1, 2, 3)))
			want.Begin = int64(len(raw))
			if err != nil || !reflect.DeepEqual(*got, want) {
				t.Errorf("%s: %+v, %v, expected %+v", header, got, err, want)
			}
			for i := range raw {
				if _, err := ReadHeader(bytes.NewReader(raw[:i])); err == nil {
					t.Fatalf("%s: cut at byte %d, no error", header, i)
				}
			}
		}
	}
}

func TestReadHeaderRefuses(t *testing.T) {
	for header, problem := range map[string]string{
		"":  "expected a value",
		"3": "not one dict",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (7, 3)} x":                        "not one dict",
		"{'descr': '<f4', 'shape': (7, 3)}":                                                  "no fortran_order",
		"{'descr': '<f4', 'fortran_order': False}":                                           "no shape",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}":                           "expected a number from 0 on",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2199023254528, 2199023254528)}":  "overflows",
		"{'fortran_order': False, 'shape': (1,)}":                                            "no descr",
		"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}":                             "Python objects",
		"{'descr': 'f4', 'fortran_order': False, 'shape': (1,)}":                             "not one of numpy's",
		"{'descr': '<z4', 'fortran_order': False, 'shape': (1,)}":                            "not one of numpy's",
		"{'descr': [('x',)], 'fortran_order': False, 'shape': (1,)}":                         "a field is",
		"{'descr': [(1, '<f4')], 'fortran_order': False, 'shape': (1,)}":                     "name is 1",
		"{'descr': [('x', '<f8', (999999, 999999))], 'fortran_order': False, 'shape': (1,)}": "larger than 2 GiB",
		"{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,)}":                 "expected a value",
		"{'a' 'b'}":                   "expected a key in quotes and a colon",
		"{'a': 1 'b': 2}":             "expected a comma",
		"{'a': 'x\\n'}":               "an escape",
		"{'a': 'x":                    "a string without an end",
		"{'a': 99999999999999999999}": "no 64-bit integer",
		strings.Repeat("[", 1000):     "nested deeper",
	} {
		_, err := ReadHeader(bytes.NewReader(file(1, header)))
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, expected %q", header, err, problem)
		}
	}
	for name, raw := range map[string]string{
		"NPY version 9.0":         Magic + "\x09\x00abcd",
		"claims 4294967295 bytes": Magic + "\x02\x00\xff\xff\xff\xff",
		"does not begin with":     "PK\x03\x04aaaaaaaaaaa",
	} {
		if _, err := ReadHeader(strings.NewReader(raw)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, expected %q", err, name)
		}
	}
}

func FuzzReadHeader(f *testing.F) {
	for _, name := range []string{"x", "fortran", "record", "big-endian", "objects"} {
		raw, err := os.ReadFile(fmt.Sprintf("../../testdata/tables/%s.npy", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := ReadHeader(bytes.NewReader(raw))
		if err == nil && (h.Begin > int64(len(raw)) || h.Size < 0 || h.ItemSize < 0) {
			t.Errorf("%+v from %d bytes", h, len(raw))
		}
	})
}
