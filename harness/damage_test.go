package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"rejoin/ckpt/torchfile"
)

func TestDamage(t *testing.T) {
	read := func(dir, name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		return string(text)
	}
	for name, tc := range map[string]struct {
		d    Damage
		file string
		want string // "": no such file
	}{
		"delete":         {Damage{Delete: "a.txt"}, "a.txt", ""},
		"rename":         {Damage{Rename: "a.txt", To: "b.txt"}, "b.txt", "0123456789"},
		"copy":           {Damage{Copy: "a.txt", To: "sub/b.txt"}, "sub/b.txt", "0123456789"},
		"copy directory": {Damage{Copy: "d", To: "e"}, "e/x", "x"},
		"truncate share": {Damage{Truncate: "a.txt", Keep: "30%"}, "a.txt", "012"},
		"truncate bytes": {Damage{Truncate: "a.txt", Keep: "4"}, "a.txt", "0123"},
		"truncate more":  {Damage{Truncate: "a.txt", Keep: "40"}, "a.txt", "0123456789"},
		"flip":           {Damage{Flip: "a.txt"}, "a.txt", "01234%6789"},
		"flip at":        {Damage{Flip: "a.txt", At: new(int64(0))}, "a.txt", " 123456789"},
		"write":          {Damage{Write: "new", Text: "text"}, "new", "text"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a.txt"), "0123456789")
			write(t, filepath.Join(dir, "d/x"), "x")
			damage(t, dir, tc.d)
			if got := read(dir, tc.file); got != tc.want {
				t.Errorf("%s holds %q, expected %q", tc.file, got, tc.want)
			}
		})
	}
	for _, d := range []Damage{{Delete: "gone"}, {Flip: "a.txt", At: new(int64(10))}, {Flip: "a.txt", At: new(int64(-1))}, {Retag: "a.txt", Tags: []string{"cpu"}}, {Legacy: "a.txt"}, {}} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a.txt"), "0123456789")
		if err := d.apply(dir); err == nil {
			t.Errorf("%+v: no error", d)
		}
	}
}

// Rewriting changes tags and format, and nothing else.
func TestRetagAndLegacy(t *testing.T) {
	dir := fixture(t, "regression-w2/checkpoint-2")
	path := filepath.Join(dir, "regression-w2/checkpoint-2/optimizer.pt")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	original, err := torchfile.Read(before, path, torchfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		d      Damage
		format torchfile.Format
		tags   map[string]int
	}{
		{Damage{Retag: "regression-w2/checkpoint-2/optimizer.pt", Tags: []string{"cuda:0", "cuda:1", "cpu"}}, torchfile.Zip, map[string]int{"cuda:0": 2, "cuda:1": 2, "cpu": 2}},
		{Damage{Retag: "regression-w2/checkpoint-2/optimizer.pt", Tags: []string{"mps"}}, torchfile.Zip, map[string]int{"mps": 6}},
		{Damage{Legacy: "regression-w2/checkpoint-2/optimizer.pt"}, torchfile.Legacy, map[string]int{"mps": 6}},
		{Damage{Retag: "regression-w2/checkpoint-2/optimizer.pt", Tags: []string{"cpu:0", "cpu"}}, torchfile.Legacy, map[string]int{"cpu:0": 3, "cpu": 3}},
	} {
		damage(t, dir, step.d)
		f, err := torchfile.Open(path, torchfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if f.Format != step.format || !reflect.DeepEqual(f.Tags(), step.tags) {
			t.Errorf("%+v: format %v, tags %v", step.d, f.Format, f.Tags())
		}
		if ds := compareLeaves(f.Object(), original.Object(), 0, func(string) bool { return true }); len(ds) > 0 {
			t.Errorf("%+v changed %v", step.d, ds)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	err = RewriteLegacy(path)
	if err == nil || !strings.Contains(err.Error(), "several device tags") {
		t.Errorf("a legacy file of several tags: %v", err)
	}
	if after, _ := os.ReadFile(path); bytes.Equal(after, before) {
		t.Error("nothing was rewritten")
	}
}
