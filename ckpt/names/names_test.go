package names

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"rejoin/tensor"
)

// file is a state dict of float32 zeros: "key" has shape [2 3], "key:4,1" shape [4 1], "key:" none.
func file(keys ...string) *tensor.StateDict {
	sd := tensor.NewStateDict()
	for _, k := range keys {
		name, shape := parse(k)
		n := 1
		for _, d := range shape {
			n *= d
		}
		sd.Set(name, tensor.FromFloat32(make([]float32, n), shape...))
	}
	return sd
}

func parse(k string) (string, []int) {
	name, dims, given := strings.Cut(k, ":")
	if !given {
		return name, []int{2, 3}
	}
	shape := []int{}
	for d := range strings.SplitSeq(dims, ",") {
		if d != "" {
			var n int
			fmt.Sscan(d, &n)
			shape = append(shape, n)
		}
	}
	return name, shape
}

func model(keys ...string) []Param {
	var out []Param
	for _, k := range keys {
		name, shape := parse(k)
		out = append(out, Param{name, shape})
	}
	return out
}

func TestFindMatches(t *testing.T) {
	for name, tc := range map[string]struct {
		file  []string
		model []string
		o     Options
		want  Match
	}{
		"plain names":                       {file: []string{"a", "b"}, model: []string{"b", "a"}, want: Match{Source: map[string]string{"a": "a", "b": "b"}}},
		"DDP":                               {file: []string{"module.a", "module.b"}, model: []string{"a", "b"}, want: Match{Peeled: "module.", Source: map[string]string{"a": "module.a", "b": "module.b"}}},
		"compiled":                          {file: []string{"_orig_mod.a"}, model: []string{"a"}, want: Match{Peeled: "_orig_mod.", Source: map[string]string{"a": "_orig_mod.a"}}},
		"a stack":                           {file: []string{"module._orig_mod.module.a"}, model: []string{"a"}, want: Match{Peeled: "module._orig_mod.module.", Source: map[string]string{"a": "module._orig_mod.module.a"}}},
		"the model's own module":            {file: []string{"module.a"}, model: []string{"module.a"}, want: Match{Source: map[string]string{"module.a": "module.a"}}},
		"DDP around the model's own module": {file: []string{"module.module.a"}, model: []string{"module.a"}, want: Match{Peeled: "module.", Source: map[string]string{"module.a": "module.module.a"}}},
		"a recorded tie":                    {file: []string{"wte"}, model: []string{"wte", "head"}, o: Options{Ties: map[string]string{"head": "wte"}}, want: Match{Source: map[string]string{"wte": "wte", "head": "wte"}, Tied: []string{"head"}}},
		"a tie under DDP":                   {file: []string{"module.wte"}, model: []string{"wte", "head"}, o: Options{Ties: map[string]string{"head": "wte"}}, want: Match{Peeled: "module.", Source: map[string]string{"wte": "module.wte", "head": "module.wte"}, Tied: []string{"head"}}},
		"a recorded tie with its prefix":    {file: []string{"module.wte"}, model: []string{"wte", "head"}, o: Options{Ties: map[string]string{"module.head": "module.wte"}}, want: Match{Peeled: "module.", Source: map[string]string{"wte": "module.wte", "head": "module.wte"}, Tied: []string{"head"}}},
		"allowed to miss":                   {file: []string{"a"}, model: []string{"a", "b"}, o: Options{AllowMissing: true}, want: Match{Source: map[string]string{"a": "a"}, Kept: []string{"b"}}},
		"a skipped key":                     {file: []string{"a", "old.x"}, model: []string{"a"}, o: Options{Skip: []string{"old.*"}}, want: Match{Source: map[string]string{"a": "a"}, Skipped: []string{"old.x"}}},
		"a skipped wrong shape":             {file: []string{"module.a", "module.b:5"}, model: []string{"a", "b"}, o: Options{Skip: []string{"b"}}, want: Match{Peeled: "module.", Source: map[string]string{"a": "module.a"}, Skipped: []string{"module.b"}, Kept: []string{"b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			sd, params := file(tc.file...), model(tc.model...)
			got, err := Find(sd, params, tc.o)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", tc.want) {
				t.Errorf("got %+v\nwant %+v", *got, tc.want)
			}
			if sel := got.Select(sd, params); sel.Len() != len(tc.want.Source) {
				t.Errorf("selected %v", sel.Names())
			}
		})
	}
}

// Mixed prefixes, broadcastable shapes and files of another model are refused with
// everything listed (D10, karpathy/nanoGPT#325; D11, pytorch/pytorch#8282).
func TestFindListsEverythingThatDoesNotFit(t *testing.T) {
	for name, tc := range map[string]struct {
		file  []string
		model []string
		o     Options
		want  MismatchError
		says  []string
	}{
		"some keys wrapped": {
			file: []string{"_orig_mod.a", "b"}, model: []string{"a", "b"},
			want: MismatchError{Matched: 1, Missing: []string{"a"}, Unexpected: []string{"_orig_mod.a"}, Wrapped: []string{"_orig_mod.a"}},
			says: []string{"missing (1): a", "unexpected (1): _orig_mod.a", "no prefix was taken off"},
		},
		"a shape that would broadcast": {
			file: []string{"w:1,64,3,3", "b:8,1", "s:1", "ok"}, model: []string{"w:32,64,3,3", "b:8", "s:", "ok", "gone"},
			want: MismatchError{Matched: 1, Missing: []string{"gone"}, Shapes: []ShapeMismatch{
				{"w", "w", []int{1, 64, 3, 3}, []int{32, 64, 3, 3}}, {"b", "b", []int{8, 1}, []int{8}}, {"s", "s", []int{1}, []int{}},
			}},
			says: []string{"w: the file has shape [1 64 3 3], the model [32 64 3 3]", "b: the file has shape [8 1], the model [8]", "s: the file has shape [1], the model []", "nothing is broadcast"},
		},
		"shapes under a prefix": {
			file: []string{"module.a:5", "module.b"}, model: []string{"a", "b"},
			want: MismatchError{Matched: 1, Peeled: "module.", Shapes: []ShapeMismatch{{"a", "module.a", []int{5}, []int{2, 3}}}},
			says: []string{"module.a: the file has shape [5]", `without the prefix "module."`},
		},
		"nothing matches, though all may miss": {
			file: []string{"x"}, model: []string{"a"}, o: Options{AllowMissing: true, Skip: []string{"x"}},
			want: MismatchError{},
			says: []string{"no key of the file is a parameter"},
		},
		"an empty file": {
			model: []string{"a"}, o: Options{AllowMissing: true},
			want: MismatchError{}, says: []string{"no key of the file is a parameter"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Find(file(tc.file...), model(tc.model...), tc.o)
			var got *MismatchError
			if !errors.As(err, &got) {
				t.Fatalf("err = %v", err)
			}
			if fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", tc.want) {
				t.Errorf("got %+v\nwant %+v", *got, tc.want)
			}
			for _, part := range tc.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in:\n%v", part, err)
				}
			}
		})
	}
	if _, err := Find(file("a"), model("a"), Options{Skip: []string{"[a"}}); !errors.As(err, new(*PatternError)) {
		t.Errorf("a bad pattern: %v", err)
	}
}

func TestNotesSayWhatWasDone(t *testing.T) {
	m, err := Find(file("module.a", "module.x"), model("a", "b", "c"), Options{
		Skip: []string{"x"}, AllowMissing: true, Ties: map[string]string{"b": "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`the prefix "module.", which every key has, was taken off`, "b is tied to module.a",
		"skipped keys of the file (1): module.x", "not in the file, so left as they were (1): c",
	}
	if got := m.Notes(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestRenamedRefusesCollisions(t *testing.T) {
	strip := func(s string) string { return strings.TrimPrefix(s, "module.") }
	sd, err := Renamed(file("module.a", "b"), strip)
	if err != nil || !slices.Equal(sd.Names(), []string{"a", "b"}) {
		t.Errorf("%v, %v", sd, err)
	}
	_, err = Renamed(file("module.a", "a"), strip)
	var c *CollisionError
	if !errors.As(err, &c) || !slices.Equal(c.Keys, []string{"module.a", "a"}) {
		t.Errorf("err = %v", err)
	}
}

func TestRecordedTies(t *testing.T) {
	got := RecordedTies(map[string]string{"format": "pt", "head": "wte", "wte": "wte", "x": "gone"}, file("wte"))
	if len(got) != 1 || got["head"] != "wte" {
		t.Errorf("got %v", got)
	}
}

func ExampleFind() {
	file := tensor.NewStateDict()
	file.Set("module.fc.weight", tensor.FromFloat32([]float32{1, 2}, 1, 2))
	model := []Param{{Name: "fc.weight", Shape: []int{1, 2}}}
	match, err := Find(file, model, Options{})
	fmt.Println(match.Source["fc.weight"], err)
	fmt.Println(match.Notes()[0])
	// Output:
	// module.fc.weight <nil>
	// the prefix "module.", which every key has, was taken off
}
