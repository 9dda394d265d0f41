package hf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ExistsError says that the final name is taken by something else than the
// checkpoint that was to be saved.
type ExistsError struct {
	Path string
	// Differs lists the files that are missing there or have other contents.
	Differs []string
	// Foreign says that it is no directory: it is never overwritten.
	Foreign bool
}

func (e *ExistsError) Error() string {
	if e.Foreign {
		return fmt.Sprintf("%s exists and is not a directory; move it away or save elsewhere", e.Path)
	}
	return fmt.Sprintf("%s exists and differs in %s; allow overwriting, or save elsewhere", e.Path, strings.Join(e.Differs, ", "))
}

var errNotWritten = errors.New("a checkpoint is committed once, after it is written")

// Commit writes manifest.json, makes everything durable and gives the
// checkpoint its name. An identical checkpoint of that name is kept; a
// different one is an *[ExistsError], after which Commit can be called again,
// unless overwrite is set: then the two are exchanged at once and the old one
// is removed. On file systems that cannot exchange two names there is an
// instant without either, which [Recover] repairs after a crash.
//
// An error with an outcome other than Unpublished means that the checkpoint
// has its name, but something afterwards failed.
func (w *Writer) Commit(ctx context.Context, overwrite bool) (Outcome, error) {
	if w.manifest == nil || w.temporary == "" {
		return Unpublished, errNotWritten
	}
	text, err := w.seal(ctx)
	if err != nil {
		return Unpublished, err
	}
	info, err := os.Lstat(w.target)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return w.publish()
	case err != nil:
		return Unpublished, writeError(w.target, err)
	case info.IsDir() && isEmptyDir(w.target):
		if err := w.disk.removeEmpty(w.target); err != nil {
			return Unpublished, writeError(w.target, err)
		}
		return w.publish()
	}
	if stat, err := os.Stat(w.target); err == nil && !stat.IsDir() {
		return Unpublished, &ExistsError{Path: w.target, Foreign: true}
	}
	differs, err := w.compare(ctx, text)
	switch {
	case err != nil:
		return Unpublished, err
	case len(differs) == 0:
		return Kept, w.Abort()
	case !overwrite:
		return Unpublished, &ExistsError{Path: w.target, Differs: differs}
	}
	return w.replace()
}

// seal writes the manifest, the last file, and makes the names of all files
// durable. It returns the manifest's text.
func (w *Writer) seal(ctx context.Context) ([]byte, error) {
	if w.sealed != nil {
		return w.sealed, nil // by a Commit that was refused
	}
	w.manifest.Step = w.step
	w.manifest.Files = w.files
	text, err := w.manifest.Encode()
	if err != nil {
		return nil, err
	}
	if _, err := w.writeFile(ctx, ManifestFile, bytesPart(ManifestFile, text).write); err != nil {
		return nil, w.explainFull(err)
	}
	if err := w.disk.syncDir(w.temporary); err != nil {
		return nil, writeError(w.temporary, err)
	}
	w.sealed = text
	return text, nil
}

func isEmptyDir(path string) bool {
	entries, err := os.ReadDir(path)
	return err == nil && len(entries) == 0
}

// compare lists the files of the checkpoint under the final name that are not
// as the new one's.
func (w *Writer) compare(ctx context.Context, manifest []byte) ([]string, error) {
	var differs []string
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		path := filepath.Join(w.target, name)
		size, err := fileSize(path)
		if err != nil || size != w.files[name].Size {
			differs = append(differs, name)
			continue
		}
		found, err := hashFile(ctx, path)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil || found != w.files[name] {
			differs = append(differs, name)
		}
	}
	if found, err := readFile(filepath.Join(w.target, ManifestFile)); err != nil || !bytes.Equal(found, manifest) {
		differs = append(differs, ManifestFile)
	}
	return differs, nil
}

// publish gives the temporary directory the final name, which nobody has.
func (w *Writer) publish() (Outcome, error) {
	if err := w.disk.rename(w.temporary, w.target); err != nil {
		return Unpublished, writeError(w.target, err)
	}
	return Saved, w.published()
}

// published makes the new name durable and lets go of the directory.
func (w *Writer) published() error {
	w.temporary = ""
	err := w.disk.syncDir(w.outDir)
	if err != nil {
		err = fmt.Errorf("%s is saved, but the disk did not confirm its name: %w", w.target, err)
	}
	return errors.Join(err, w.unlock())
}

// replace puts the new checkpoint in the old one's place and removes the old one.
func (w *Writer) replace() (Outcome, error) {
	old := w.temporary
	err := w.disk.exchange(w.temporary, w.target)
	if errors.Is(err, errNoExchange) {
		old, err = w.displace()
	}
	if err != nil {
		return Unpublished, writeError(w.target, err)
	}
	if err := w.published(); err != nil {
		return Replaced, err
	}
	if err := w.disk.removeAll(old); err != nil {
		return Replaced, fmt.Errorf("%s is saved, but the checkpoint it replaces could not be removed: %w", w.target, err)
	}
	return Replaced, nil
}

// displace replaces the old checkpoint in two renames, and undoes the first if
// the second fails. It holds the old one's lock, so no Recover comes between.
func (w *Writer) displace() (old string, err error) {
	lock, err := w.disk.lock(w.target)
	if err == nil {
		defer lock.Close()
	} else if !errors.Is(err, errNoLock) {
		return "", err
	}
	old = temporaryName(w.outDir, "displaced", w.step)
	if err := w.disk.rename(w.target, old); err != nil {
		return "", err
	}
	if err := w.disk.rename(w.temporary, w.target); err != nil {
		return "", errors.Join(err, w.disk.rename(old, w.target))
	}
	return old, nil
}
