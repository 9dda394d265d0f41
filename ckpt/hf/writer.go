package hf

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

// Outcome is what a [Writer.Commit] did.
type Outcome uint8

// The outcomes of a commit.
const (
	Unpublished Outcome = iota // nothing changed under the final name
	Saved                      // a new checkpoint
	Kept                       // an identical checkpoint was there, and stays
	Replaced                   // another checkpoint was there, and is gone
)

func (o Outcome) String() string {
	switch o {
	case Unpublished:
		return "unpublished"
	case Saved:
		return "saved"
	case Kept:
		return "kept"
	case Replaced:
		return "replaced"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// A Writer makes one checkpoint directory. It writes into a hidden sibling
// directory and gives it the final name at the very end, so the final name is
// always a whole checkpoint: the old one or the new one.
//
// One process writes to a run directory at a time. Call Write once, then
// Commit; always call Abort in the end, which does nothing after a commit.
type Writer struct {
	disk      disk
	parallel  int // files written at the same time
	step      int
	outDir    string
	target    string // outDir/checkpoint-N
	temporary string // outDir/.tmp-checkpoint-N-…
	lock      io.Closer
	needed    uint64    // bytes, about; set by Write
	manifest  *Manifest // set by Write
	sealed    []byte    // the manifest's text, once it is written

	mu    sync.Mutex
	files map[string]FileInfo // written so far; guarded by mu while Write runs
}

// Begin makes the temporary directory for the checkpoint of step under outDir,
// which it creates, and clears away what dead runs left there, as far as it
// can: see [Recover].
func Begin(outDir string, step int) (*Writer, error) {
	return begin(systemDisk(), outDir, step)
}

func begin(d disk, outDir string, step int) (*Writer, error) {
	if step < 0 {
		return nil, fmt.Errorf("a checkpoint of step %d cannot be: steps start at 0", step)
	}
	if err := makeRunDir(d, outDir); err != nil {
		return nil, writeError(outDir, err)
	}
	// What cannot be cleared away does no harm: Recover tells about it.
	_, _ = recoverDir(d, outDir)
	w := &Writer{
		disk: d, parallel: defaultParallel, step: step, outDir: outDir,
		target: filepath.Join(outDir, DirName(step)), files: map[string]FileInfo{},
	}
	if err := w.makeTemporary(); err != nil {
		return nil, writeError(outDir, err)
	}
	return w, nil
}

// makeRunDir creates outDir and makes its name durable.
func makeRunDir(d disk, outDir string) error {
	if _, err := os.Stat(outDir); err == nil {
		return nil
	}
	if err := d.mkdirAll(outDir); err != nil {
		return err
	}
	return d.syncDir(filepath.Dir(outDir))
}

// makeTemporary makes a directory and locks it. Another process that clears
// leftovers may come between the two and remove it: then a new one is made.
func (w *Writer) makeTemporary() error {
	const attempts = 5
	for range attempts {
		w.temporary = temporaryName(w.outDir, "tmp", w.step)
		if err := w.disk.mkdir(w.temporary); err != nil {
			return err
		}
		lock, err := w.disk.lock(w.temporary)
		switch {
		case errors.Is(err, errNoLock):
			return nil
		case errors.Is(err, errLocked), errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return errors.Join(err, w.disk.removeAll(w.temporary))
		}
		if _, err := os.Stat(w.temporary); err == nil {
			w.lock = lock
			return nil
		}
		if err := lock.Close(); err != nil {
			return err
		}
	}
	return errors.New("other processes keep removing the temporary directory: only one may write to a run directory")
}

func temporaryName(dir, kind string, step int) string {
	var suffix [4]byte
	_, _ = rand.Read(suffix[:]) // never fails
	return filepath.Join(dir, "."+kind+"-"+DirName(step)+"-"+hex.EncodeToString(suffix[:]))
}

// ownTemporary matches what temporaryName makes, and nothing of others.
var ownTemporary = regexp.MustCompile(`^\.(tmp|displaced|removed)-(checkpoint-([0-9]+))-[0-9a-f]{8}$`)

// Abort removes the temporary directory. After a commit it does nothing.
func (w *Writer) Abort() error {
	if w.temporary == "" {
		return nil
	}
	err := w.disk.removeAll(w.temporary)
	w.temporary = ""
	return errors.Join(err, w.unlock())
}

func (w *Writer) unlock() error {
	if w.lock == nil {
		return nil
	}
	err := w.lock.Close()
	w.lock = nil
	return err
}

// Recover clears away what writers that died left in a run directory:
// temporary directories are removed, removals are ended, and a checkpoint that
// an overwrite had moved aside gets its name back. What a living writer holds is left alone. It
// returns one line for each thing it did. A directory that does not exist has
// nothing to recover.
func Recover(outDir string) ([]string, error) {
	return recoverDir(systemDisk(), outDir)
}

func recoverDir(d disk, outDir string) ([]string, error) {
	entries, err := os.ReadDir(outDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fileError(outDir, err)
	}
	var done []string
	for _, entry := range entries {
		m := ownTemporary.FindStringSubmatch(entry.Name())
		if m == nil || !entry.IsDir() {
			continue
		}
		line, err := recoverEntry(d, outDir, entry.Name(), m[2], m[1])
		if err != nil {
			return done, writeError(filepath.Join(outDir, entry.Name()), err)
		}
		if line != "" {
			done = append(done, line)
		}
	}
	return done, nil
}

func recoverEntry(d disk, outDir, name, final, kind string) (string, error) {
	path := filepath.Join(outDir, name)
	lock, err := d.lock(path)
	switch {
	case errors.Is(err, errLocked), errors.Is(err, errNoLock), errors.Is(err, os.ErrNotExist):
		return "", nil // alive, or nobody can tell, or gone meanwhile
	case err != nil:
		return "", err
	}
	defer lock.Close()
	target := filepath.Join(outDir, final)
	why := "as the save was interrupted"
	switch kind {
	case "removed":
		why = "as its removal was interrupted"
	case "displaced":
		if _, err := os.Lstat(target); errors.Is(err, os.ErrNotExist) {
			if err := d.rename(path, target); err != nil {
				return "", err
			}
			return fmt.Sprintf("%s: put back, as an overwrite was interrupted", target), d.syncDir(outDir)
		}
		if Complete(target) != nil {
			return "", nil // the one moved aside may be the better one
		}
	}
	if err := d.removeAll(path); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: removed, %s", path, why), nil
}

// WriteError is a failure to write a checkpoint; earlier checkpoints are untouched.
type WriteError struct {
	Path string
	Err  error
}

func (e *WriteError) Error() string {
	return fmt.Sprintf("%s cannot be written: %v; earlier checkpoints are untouched", e.Path, e.Err)
}

func (e *WriteError) Unwrap() error { return e.Err }

// writeError names path once, whatever named it inside err.
func writeError(path string, err error) error {
	if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
		return &WriteError{Path: pathErr.Path, Err: pathErr.Err}
	}
	return &WriteError{Path: path, Err: err}
}

// SpaceError says that a checkpoint does not fit on the disk.
type SpaceError struct {
	Dir    string
	Needed uint64 // bytes of the whole checkpoint, about
	Free   uint64 // bytes free for it; 0 if unknown
	Err    error  // the system's refusal; nil if seen before anything was written
}

func (e *SpaceError) Error() string {
	cause := ""
	if e.Err != nil {
		cause = fmt.Sprintf(" (%v)", e.Err)
	}
	return fmt.Sprintf("no room for a checkpoint in %s%s: about %d bytes needed, %d free; make room or write elsewhere; earlier checkpoints are untouched",
		e.Dir, cause, e.Needed, e.Free)
}

func (e *SpaceError) Unwrap() error { return e.Err }
