package tree

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"rejoin/pyobj"
	"rejoin/tensor"
)

func lines(leaves []Leaf) []string {
	var out []string
	for _, l := range leaves {
		out = append(out, l.Path()+"="+Repr(l.Value))
	}
	return out
}

func list(items ...any) *pyobj.List   { return &pyobj.List{Items: items} }
func tuple(items ...any) *pyobj.Tuple { return &pyobj.Tuple{Items: items} }

func TestWalkTakesContainersApart(t *testing.T) {
	w := tensor.FromFloat32([]float32{1, 2}, 2)
	words := list()
	for i := range 40 {
		words.Items = append(words.Items, int64(i))
	}
	enum := &pyobj.Object{Class: pyobj.Global{Module: "m", Name: "Kind"}, Args: tuple("no"), Called: true}
	namespace := &pyobj.Object{Class: pyobj.Global{Module: "argparse", Name: "Namespace"}, State: pyobj.NewDict("lr", 0.1, "kind", enum)}
	object := pyobj.NewDict(
		"model", pyobj.NewDict("fc.weight", w, "p", &pyobj.Parameter{Data: w}),
		"state", pyobj.NewDict(0, pyobj.NewDict("step", w)),
		"betas", tuple(0.9, 0.999), "none", nil, "empty", pyobj.NewDict(), "words", words,
		"args", namespace, "json", map[string]any{"b": []any{int64(1)}, "a": "x"}, tuple(int64(1), "k"), true,
	)
	leaves, err := Walk(object)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"model.fc.weight=tensor(float32[2])", "model.p=" + Repr(&pyobj.Parameter{Data: w}), "state.0.step=tensor(float32[2])",
		"betas.0=0.9", "betas.1=0.999", "none=None", "empty={}", "words=[0, 1, 2, 3, 4, 5, 6, 7, … 32 more]",
		"args=<argparse.Namespace>", "args.lr=0.1", "args.kind=<m.Kind('no')>", "json.a='x'", "json.b.0=1", "(1, 'k')=True",
	}
	got := lines(leaves)
	got[1], want[1] = "", "" // a pointer
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if leaves[1].Tensor() != w || leaves[3].Tensor() != nil {
		t.Error("Tensor does not tell tensors from other values")
	}
}

func TestWalkEnds(t *testing.T) {
	loop := list()
	loop.Items = []any{int64(1), loop}
	leaves, err := Walk(loop)
	if err != nil || !slices.Equal(lines(leaves), []string{"0=1", "1=<list that contains itself>"}) {
		t.Errorf("a loop: %q, %v", lines(leaves), err)
	}
	deep := any(int64(1))
	for range 2 * maxDepth {
		deep = list(deep)
	}
	var bounds *BoundsError
	if _, err := Walk(deep); !errors.As(err, &bounds) || !strings.Contains(err.Error(), "deeper than 500") {
		t.Errorf("a deep list: %v", err)
	}
	bomb := any("x")
	for range 40 { // 2^40 leaves, 40 objects
		bomb = list(bomb, bomb)
	}
	if leaves, err := Walk(bomb); !errors.As(err, &bounds) || len(leaves) > maxKeys/40 {
		t.Errorf("a bomb: %d leaves, %v", len(leaves), err)
	}
}

// Scalars and arrays of numpy's are plain values, in either spelling
// (D30, deepmodeling/deepmd-kit#4147).
func TestReprIsPythons(t *testing.T) {
	for want, v := range map[string]any{
		"None": nil, "True": true, "False": false, "7": int64(7), "1180591620717411303424": new(big.Int).Lsh(big.NewInt(1), 70),
		"0.7000000000000001": 0.7000000000000001, "1e-05": 1e-05, "1.0": 1.0, "1e+16": 1e16, "0.0": 0.0, "inf": math.Inf(1), "-inf": math.Inf(-1), "nan": math.NaN(),
		"(1+2j)": complex(1, 2), "(0-1.5j)": complex(0, -1.5),
		"'modèle-名'": "modèle-名", `"it's"`: "it's", `'say "x"'`: `say "x"`, `b'\x00\xff\x07a'`: pyobj.Bytes("\x00\xff\x07a"),
		"bytearray(b'ab')": &pyobj.ByteArray{Data: []byte("ab")}, "torch.Size([7, 9])": pyobj.Size{7, 9}, "torch.bfloat16": tensor.BFloat16,
		"device('cuda:1')": pyobj.Device("cuda:1"), "(1,)": tuple(int64(1)), "{1, 2}": &pyobj.Set{Items: []any{int64(1), int64(2)}}, "set()": &pyobj.Set{},
		"np.float64(10.5)":           &pyobj.NumpyScalar{Dtype: "f8", Data: []byte{0, 0, 0, 0, 0, 0, 0x25, 0x40}, Module: "numpy.core.multiarray"},
		"np.int64(9)":                &pyobj.NumpyScalar{Dtype: "i8", Data: []byte{9, 0, 0, 0, 0, 0, 0, 0}, Module: "numpy._core.multiarray"},
		"array(shape=[7], dtype=u4)": &pyobj.NDArray{Shape: []int{7}, Dtype: "u4"},
		"<class torch.nn.Linear>":    pyobj.Global{Module: "torch.nn", Name: "Linear"},
		"'" + strings.Repeat("a", 200) + "'… (300 bytes)": strings.Repeat("a", 300),
	} {
		if got := Repr(v); got != want {
			t.Errorf("Repr(%T) = %s, want %s", v, got, want)
		}
	}
	deep := any("x")
	for range 10 {
		deep = list(deep)
	}
	if got := Repr(deep); got != "[[[[[…]]]]]" {
		t.Errorf("a deep list: %s", got)
	}
	if got := TypeName(map[string]any{}); got != "dict" {
		t.Errorf("type of a JSON object: %s", got)
	}
}
