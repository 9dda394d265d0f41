package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"rejoin/ckpt/torchfile"
	"rejoin/tensor"
)

// Retag rewrites the torch.save file at path so that its storages carry tags, in
// turn, as if it had been saved from those devices.
func Retag(path string, tags []string) error {
	return rewrite(path, func(w *bytes.Buffer, f *torchfile.File) error {
		tag := func(i int) string { return tags[i%len(tags)] }
		if f.Format == torchfile.Legacy {
			return torchfile.WriteLegacy(w, f.Object(), tag)
		}
		return torchfile.WriteTagged(w, f.Producer(), f.Object(), tag)
	})
}

// RewriteLegacy rewrites the torch.save file at path in the format of before
// torch 1.6. A file that has one tag for all its storages keeps it.
func RewriteLegacy(path string) error {
	return rewrite(path, func(w *bytes.Buffer, f *torchfile.File) error {
		only := "cpu"
		for tag := range f.Tags() {
			only = tag
		}
		if len(f.Tags()) > 1 {
			return fmt.Errorf("%s carries several device tags (%s); write it as legacy first, then retag it", path, f.ForeignTags())
		}
		return torchfile.WriteLegacy(w, f.Object(), func(int) string { return only })
	})
}

func rewrite(path string, write func(*bytes.Buffer, *torchfile.File) error) (err error) {
	f, err := torchfile.Open(path, torchfile.Options{MapLocation: tensor.CPU})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var out bytes.Buffer
	if err := write(&out, f); err != nil {
		return err
	}
	// The file is mapped: it is exchanged, not written over.
	temporary := path + ".rewritten"
	if err := os.WriteFile(temporary, out.Bytes(), 0o666); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
