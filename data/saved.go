package data

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rejoin/data/internal/columnar"
)

// The files that datasets' save_to_disk writes beside the data.
const (
	savedState  = "state.json"
	savedSplits = "dataset_dict.json" // of a DatasetDict, with a directory for each split
)

// The longest of these that is read, in bytes.
const maxState = 16 << 20

// openSaved opens a directory written by datasets' save_to_disk (arrow_dataset.py,
// datasets 5.2): state.json lists Arrow streams, whose rows follow each other.
func openSaved(dir string) (*Table, error) {
	t := newTable(dir)
	names, err := savedFiles(dir)
	if err != nil {
		return nil, t.at(err)
	}
	var shards []*columnar.File
	digest := sha256.New()
	for _, name := range names {
		shard, sum, err := t.openShard(dir, name)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		shards = append(shards, shard)
		fmt.Fprintf(digest, "%s  %s\n", sum, name)
	}
	t.digest = hex.EncodeToString(digest.Sum(nil))
	if err := t.addShards(names, shards); err != nil {
		return nil, errors.Join(t.at(err), t.Close())
	}
	return t, nil
}

// addShards adds the columns of files whose rows follow each other.
func (t *Table) addShards(names []string, shards []*columnar.File) *TableError {
	rows := 0
	for i, shard := range shards {
		if !shard.SameColumns(shards[0]) {
			return &TableError{Problem: fmt.Sprintf("%s has other columns than %s: they are not of one dataset", names[i], names[0])}
		}
		rows += shard.Rows
	}
	if rows == 0 {
		return &TableError{Problem: "the dataset has no rows"}
	}
	for i, name := range shards[0].Names {
		load := func() (values, *TableError) { return loadColumnar(i, shards...) }
		if err := t.addColumn(&column{name: name, load: load}, rows); err != nil {
			return err
		}
	}
	return nil
}

// openShard opens one of the directory's Arrow files, which t keeps, and digests it.
func (t *Table) openShard(dir, name string) (*columnar.File, string, error) {
	path := filepath.Join(dir, name)
	f, size, err := openRegular(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, "", t.at(&TableError{Problem: fmt.Sprintf("%s lists %s, which is missing: the dataset was copied in part", savedState, name), Err: err})
	}
	if err != nil {
		return nil, "", err
	}
	t.files = append(t.files, f)
	head := make([]byte, min(size, 64))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, "", fmt.Errorf("data file %s: %w", path, err)
	}
	kind := formatOf(head, size)
	if kind != arrowStream && kind != arrowFile {
		problem := foreign(head)
		if problem == "" {
			problem = "not an Arrow file"
		}
		return nil, "", &TableError{Path: path, Problem: problem}
	}
	shard, err := openColumnar(kind, columnar.Input{ReaderAt: f, Size: size})
	if err != nil {
		return nil, "", &TableError{Path: path, Problem: err.Error(), Err: err}
	}
	digest, err := digestOf(f, size)
	if err != nil {
		return nil, "", fmt.Errorf("data file %s: %w", path, err)
	}
	return shard, digest, nil
}

// savedFiles lists the directory's data files, by names that stay within it.
func savedFiles(dir string) ([]string, *TableError) {
	var state struct {
		Files []struct {
			Name string `json:"filename"`
		} `json:"_data_files"`
	}
	err := readJSON(filepath.Join(dir, savedState), &state)
	if errors.Is(err, os.ErrNotExist) {
		return nil, notSaved(dir)
	}
	if err != nil {
		return nil, &TableError{Problem: fmt.Sprintf("%s: %v", savedState, err), Err: err}
	}
	var names []string
	for _, f := range state.Files {
		if !filepath.IsLocal(f.Name) || f.Name == "." {
			return nil, &TableError{Problem: fmt.Sprintf("%s lists %q, expected the name of a file in the directory", savedState, f.Name)}
		}
		names = append(names, f.Name)
	}
	if names == nil {
		return nil, &TableError{Problem: savedState + " lists no data files: the dataset has no rows"}
	}
	return names, nil
}

// notSaved says what a directory is that is no dataset.
func notSaved(dir string) *TableError {
	var dict struct {
		Splits []string `json:"splits"`
	}
	if err := readJSON(filepath.Join(dir, savedSplits), &dict); err == nil && len(dict.Splits) > 0 {
		return &TableError{Problem: fmt.Sprintf("a dataset with splits %s: name one of them, as in %s",
			strings.Join(dict.Splits, ", "), filepath.Join(dir, dict.Splits[0]))}
	}
	problem := fmt.Sprintf("a directory without %s, which datasets' save_to_disk writes", savedState)
	entries, err := os.ReadDir(dir)
	i := slices.IndexFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() })
	if err == nil && i >= 0 {
		problem += "; if one of its files is the data, name that, as in " + filepath.Join(dir, entries[i].Name())
	}
	return &TableError{Problem: problem}
}

func readJSON(path string, to any) error {
	f, size, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if size > maxState {
		return fmt.Errorf("%d bytes, at most %d are read", size, maxState)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxState))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}
