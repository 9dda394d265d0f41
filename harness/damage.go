package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// verb is the one thing that a Damage does, and to what.
func (d *Damage) verb() (name, path string, problem string) {
	for verb, p := range map[string]string{
		"delete": d.Delete, "rename": d.Rename, "copy": d.Copy, "truncate": d.Truncate,
		"flip": d.Flip, "retag": d.Retag, "legacy": d.Legacy, "write": d.Write,
	} {
		switch {
		case p == "":
		case name != "":
			return "", "", "more than one verb in an entry; give each its own"
		default:
			name, path = verb, p
		}
	}
	if name == "" {
		return "", "", "expected one of delete, rename, copy, truncate, flip, retag, legacy, write"
	}
	return name, path, ""
}

func (d *Damage) path() string {
	_, path, _ := d.verb()
	return path
}

func (d *Damage) check() string {
	verb, _, problem := d.verb()
	switch {
	case problem != "":
		return problem
	case (verb == "rename" || verb == "copy") != (d.To != ""):
		return "to goes with rename and copy, which need it"
	case verb == "retag" && len(d.Tags) == 0:
		return "tags is missing: the device tags that the storages take in turn"
	}
	if verb == "truncate" {
		if _, err := d.kept(100); err != nil {
			return err.Error()
		}
	}
	return ""
}

// kept is how many of a file's bytes are left by a truncation.
func (d *Damage) kept(size int64) (int64, error) {
	number, percent := strings.CutSuffix(d.Keep, "%")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || percent && n > 100 {
		return 0, fmt.Errorf("keep: found %q, expected a share such as 50%%, or a number of bytes", d.Keep)
	}
	if percent {
		return size * n / 100, nil
	}
	return min(n, size), nil
}

// apply does the damage in the directory root.
func (d *Damage) apply(root string) error {
	verb, path, problem := d.verb()
	if problem != "" {
		return errors.New(problem)
	}
	path = filepath.Join(root, path)
	if verb == "write" {
		return os.WriteFile(path, []byte(d.Text), 0o666)
	}
	if _, err := os.Lstat(path); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	to := filepath.Join(root, d.To)
	switch verb {
	case "delete":
		return os.RemoveAll(path)
	case "rename":
		return os.Rename(path, to)
	case "copy":
		return copyTree(to, os.DirFS(filepath.Dir(path)), filepath.Base(path))
	case "truncate":
		return d.truncate(path)
	case "flip":
		return d.flip(path)
	case "retag":
		return Retag(path, d.Tags)
	default:
		return RewriteLegacy(path)
	}
}

func (d *Damage) truncate(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	n, err := d.kept(info.Size())
	if err != nil {
		return err
	}
	return os.Truncate(path, n)
}

func (d *Damage) flip(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	at := int64(len(data) / 2)
	if d.At != nil {
		at = *d.At
	}
	if at < 0 || at >= int64(len(data)) {
		return fmt.Errorf("flip: byte %d of %s, which has %d", at, path, len(data))
	}
	data[at] ^= 0x10
	return os.WriteFile(path, data, 0o666)
}

// copyTree copies the file or directory name of from to the path to, whose
// parents are made.
func copyTree(to string, from fs.FS, name string) error {
	return fs.WalkDir(from, name, func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(name, p)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o777)
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
			return err
		}
		data, err := fs.ReadFile(from, p)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o666)
	})
}
