package hf

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"rejoin/ckpt/hf/pyjson"
)

// ManifestFormat is the version of manifest.json that this package writes. It
// reads this one and older ones.
const ManifestFormat = 1

// Manifest is manifest.json: what a checkpoint holds and what a resume needs
// besides the Trainer's own files. It has no times and no host names, so equal
// runs write equal bytes.
type Manifest struct {
	// Rejoin is the version of the program that wrote the checkpoint.
	Rejoin string
	// Step is the number of optimizer steps done; a Writer sets it.
	Step int
	// WorldSize is the number of ranks.
	WorldSize int
	// SamplesSeen is the number of rows trained on so far, by all ranks.
	SamplesSeen int64
	// Arguments are the training arguments in effect.
	Arguments Arguments
	// DataPath and DataDigest name the training data; the digest is a SHA-256 in hex.
	DataPath, DataDigest string
	// ModelYAML is the text of model.yaml; "" when config.json describes the model.
	ModelYAML string
	// Sampler names the order in which rows are drawn.
	Sampler string
	// BLAS and Kernel name what computed: sums may differ in the last place with another.
	BLAS, Kernel string
	// Files are all other files of the checkpoint by name; a Writer sets them.
	Files map[string]FileInfo
	// Extra keeps keys that this version does not know.
	Extra map[string]any
}

// FileInfo describes the content of a file.
type FileInfo struct {
	Size   int64  // in bytes
	SHA256 string // in lower-case hex
}

// ManifestFormatError says that a newer program wrote the manifest.
type ManifestFormatError struct{ Found int64 }

func (e *ManifestFormatError) Error() string {
	return fmt.Sprintf("manifest format %d is newer than the %d known here: use the Rejoin version that wrote it, or a later one", e.Found, ManifestFormat)
}

// stringFields and intFields map the manifest's keys to its fields.
func (m *Manifest) stringFields() map[string]*string {
	return map[string]*string{
		"rejoin_version": &m.Rejoin, "data_path": &m.DataPath, "data_sha256": &m.DataDigest,
		"model_yaml": &m.ModelYAML, "sampler": &m.Sampler, "blas": &m.BLAS, "kernel": &m.Kernel,
	}
}

// Encode is the text of manifest.json: sorted keys, indent 2, a newline at the end.
func (m *Manifest) Encode() ([]byte, error) {
	files := map[string]any{}
	for name, info := range m.Files {
		files[name] = map[string]any{"size": info.Size, "sha256": info.SHA256}
	}
	fields := maps.Clone(m.Extra)
	if fields == nil {
		fields = map[string]any{}
	}
	for key, s := range m.stringFields() {
		fields[key] = *s
	}
	fields["format"] = ManifestFormat
	fields["step"] = m.Step
	fields["world_size"] = m.WorldSize
	fields["samples_seen"] = m.SamplesSeen
	fields["arguments"] = map[string]any(m.Arguments)
	fields["files"] = files
	text, err := pyjson.Encode(fields)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	return append(text, '\n'), nil
}

// DecodeManifest reads the text of a manifest.json.
func DecodeManifest(data []byte) (*Manifest, error) {
	v, err := pyjson.Decode(data)
	if err != nil {
		return nil, err
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("expected a dict, found %s", typeName(v))
	}
	if format, ok := fields["format"].(int64); !ok || format < 1 {
		return nil, fmt.Errorf("key %q: expected a version number", "format")
	} else if format > ManifestFormat {
		return nil, &ManifestFormatError{Found: format}
	}
	m := &Manifest{}
	r := fieldReader{fields: fields}
	for key, s := range m.stringFields() {
		*s = take[string](&r, key)
	}
	m.Step = int(take[int64](&r, "step"))
	m.WorldSize = int(take[int64](&r, "world_size"))
	m.SamplesSeen = take[int64](&r, "samples_seen")
	m.Arguments = take[map[string]any](&r, "arguments")
	files := take[map[string]any](&r, "files")
	if r.err != nil {
		return nil, r.err
	}
	delete(fields, "format")
	m.Extra = fields
	m.Files, err = decodeFiles(files)
	return m, err
}

// A fieldReader takes keys out of a dict and keeps the first error.
type fieldReader struct {
	fields map[string]any
	err    error
}

func take[T any](r *fieldReader, key string) T {
	v, ok := r.fields[key].(T)
	if !ok && r.err == nil {
		r.err = fmt.Errorf("key %q: expected %s, found %s", key, typeName(any(v)), typeName(r.fields[key]))
	}
	delete(r.fields, key)
	return v
}

func decodeFiles(files map[string]any) (map[string]FileInfo, error) {
	infos := make(map[string]FileInfo, len(files))
	for name, v := range files {
		if err := checkFileName(name); err != nil {
			return nil, fmt.Errorf("key %q: %w", "files", err)
		}
		entry, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("file %q: expected a dict, found %s", name, typeName(v))
		}
		r := fieldReader{fields: entry}
		info := FileInfo{Size: take[int64](&r, "size"), SHA256: take[string](&r, "sha256")}
		if sum, err := hex.DecodeString(info.SHA256); r.err == nil && (err != nil || len(sum) != 32 || info.Size < 0) {
			r.err = errors.New("the size or the SHA-256 is not one")
		}
		if r.err != nil {
			return nil, fmt.Errorf("file %q: %w", name, r.err)
		}
		infos[name] = info
	}
	return infos, nil
}

// checkFileName refuses a name that would leave the checkpoint directory.
func checkFileName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") || filepath.Base(name) != name {
		return fmt.Errorf("%q is not the name of a file in the checkpoint", name)
	}
	return nil
}

// checkSizes compares the sizes of the files that are there with the manifest's.
func (m *Manifest) checkSizes(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		path, want := filepath.Join(dir, name), m.Files[name].Size
		size, err := fileSize(path)
		if err != nil {
			return err
		}
		if size != want {
			return &FileError{
				Path: path, Problem: Mismatched, Next: nextStep(path),
				Err: fmt.Errorf("%d bytes expected by %s, found %d", want, ManifestFile, size),
			}
		}
	}
	return nil
}

// Verify reads every file that the manifest lists and compares size and
// SHA-256; the error joins a *[FileError] for each that differs. Without a
// manifest there is nothing to compare with, and the error says so.
func (c *Checkpoint) Verify(ctx context.Context) error {
	m, err := c.Manifest()
	if err != nil {
		return err
	}
	if m == nil {
		return &FileError{Path: c.path(ManifestFile), Problem: Missing, Next: "only a checkpoint that Rejoin wrote can be verified"}
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		path, want := c.path(name), m.Files[name]
		found, err := hashFile(ctx, path)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			problems = append(problems, err)
		case found != want:
			problems = append(problems, c.mismatch(name, want, found))
		}
	}
	return errors.Join(problems...)
}
