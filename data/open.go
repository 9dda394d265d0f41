package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"rejoin/data/internal/npy"
)

// Open opens a data file of any kind that Rejoin reads: JSON Lines, CSV, Parquet,
// Arrow (IPC file or stream), NPY, NPZ or safetensors, or a directory written by
// save_to_disk of Hugging Face's datasets. It goes by what the file holds, not by
// its name. The caller must Close the table.
//
// A file that is none of these, damaged or cut fails with a [*TableError].
func Open(path string) (*Table, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return openSaved(path)
	}
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	t, err := openFile(f, size, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	if t.files == nil {
		f.Close()
	}
	return t, nil
}

// openRegular opens a file and gives its size.
func openRegular(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, fmt.Errorf("data file: %w", err)
	}
	if !info.Mode().IsRegular() { // a pipe would be waited for
		return nil, 0, &TableError{Path: path, Problem: fmt.Sprintf("not a regular file but %s; give a data file", kindOf(info))}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("data file: %w", err)
	}
	return f, info.Size(), nil
}

func kindOf(info os.FileInfo) string {
	if info.IsDir() {
		return "a directory"
	}
	return "a device, pipe or socket"
}

// format is a kind of data file.
type format int

const (
	unknown format = iota
	jsonLines
	csvText
	parquetFile
	arrowFile
	arrowStream
	npyFile
	zipFile
	safetensorsFile
)

// openFile makes the table of an open file. The table keeps f if it lists it in t.files.
func openFile(f *os.File, size int64, path string) (*Table, error) {
	head := make([]byte, min(size, 4096))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("data file %s: %w", path, err)
	}
	kind := formatOf(head, size)
	switch kind {
	case jsonLines:
		return ReadJSONL(f, path)
	case csvText:
		return ReadCSV(f, path)
	case unknown:
		problem := foreign(head)
		if problem == "" {
			problem = "none of the formats that Rejoin reads: JSON Lines, CSV, Parquet, Arrow, NPY, NPZ, safetensors, or a directory of datasets' save_to_disk"
		}
		return nil, &TableError{Path: path, Problem: problem}
	default:
	}
	t := newTable(path)
	if err := t.openBinary(kind, f, size); err != nil {
		return nil, t.at(err)
	}
	if t.rows == 0 {
		return nil, t.at(&TableError{Problem: "the file has no rows"})
	}
	var err error
	if t.digest, err = digestOf(f, size); err != nil {
		return nil, fmt.Errorf("data file %s: %w", path, err)
	}
	return t, nil
}

// openBinary adds the columns of a file. They read from f, which t keeps.
func (t *Table) openBinary(kind format, f *os.File, size int64) *TableError {
	t.files = []*os.File{f}
	switch kind {
	case parquetFile, arrowFile, arrowStream:
		return t.addColumnar(kind, f, size)
	case npyFile:
		return t.addNPY(f, size)
	case zipFile:
		return t.addNPZ(f, size)
	default:
		return t.addSafetensors(f)
	}
}

// digestOf is the SHA-256 of the first size bytes of r, in hexadecimal.
func digestOf(r io.ReaderAt, size int64) (string, error) {
	h := sha256.New()
	if _, err := io.CopyN(h, io.NewSectionReader(r, 0, size), size); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// formatOf tells a file's format by how it begins.
func formatOf(head []byte, size int64) format {
	for _, m := range []struct {
		magic  string
		format format
	}{
		{npy.Magic, npyFile},
		{"PK\x03\x04", zipFile},
		{"PK\x05\x06", zipFile}, // an empty one
		{"PAR1", parquetFile},
		{"ARROW1", arrowFile},
		{"\xff\xff\xff\xff", arrowStream},
	} {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return m.format
		}
	}
	if len(head) > 8 && head[8] == '{' && binary.LittleEndian.Uint64(head) <= uint64(size)-8 {
		return safetensorsFile
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	switch {
	case foreign(head) != "":
		return unknown
	case len(text) == 0, text[0] == '{', text[0] == '[':
		return jsonLines
	case bytes.IndexByte(head, 0) >= 0 || text[0] == '<':
		return unknown
	}
	return csvText
}

// How files begin that are not data, or not yet.
var foreignFiles = []struct{ start, problem string }{
	{"version https://git-lfs", "a Git LFS pointer, not the data: fetch it with `git lfs pull`"},
	{"\x1f\x8b", "compressed with gzip: unpack it first"},
	{"\x28\xb5\x2f\xfd", "compressed with Zstandard: unpack it first"},
	{"BZh", "compressed with bzip2: unpack it first"},
	{"\xfd7zXZ", "compressed with xz: unpack it first"},
	{"FEA1", "a Feather file of version 1: write it anew as version 2"},
	{"\x89HDF", "an HDF5 file: convert it to Parquet or NPZ"},
	{"PARE", "an encrypted Parquet file: write it without encryption"},
	{"\x80\x02", "a Python pickle, which would have to be run: convert it to Parquet or NPZ"},
	{"\x80\x04", "a Python pickle, which would have to be run: convert it to Parquet or NPZ"},
	{"\x80\x05", "a Python pickle, which would have to be run: convert it to Parquet or NPZ"},
	{"<", "HTML or XML: a web page may have been saved in place of the data"},
	{"\xff\xfe", "text in UTF-16, expected UTF-8"},
	{"\xfe\xff", "text in UTF-16, expected UTF-8"},
}

// foreign says what a file is by how it begins, "" if that is not known.
func foreign(head []byte) (problem string) {
	for _, f := range foreignFiles {
		if bytes.HasPrefix(head, []byte(f.start)) {
			return f.problem
		}
	}
	return ""
}

// binaryFormat names a format that is no text, for a reader of text.
func binaryFormat(head []byte) string {
	switch formatOf(head, int64(len(head))) {
	case zipFile:
		return "a zip archive: unpack it first"
	case parquetFile:
		return "a Parquet file"
	case arrowFile, arrowStream:
		return "an Arrow file"
	case npyFile:
		return "an NPY file"
	default:
		return foreign(head)
	}
}
