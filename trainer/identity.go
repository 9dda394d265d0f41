package trainer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"rejoin/ckpt/hf"
)

// runKey is manifest.json's key for the run's identity: checkpoints that have it
// in common come from one beginning under one set of arguments, so that going on
// from any of them reproduces the later ones.
const runKey = "run"

// identity names the run. A resume that changes nothing goes on with the
// checkpoint's own; anything else begins another run, whose name is a hash of
// where it begins and what it is told.
func (r *resolver) identity() error {
	if r.sameRun() {
		r.job.Run, _ = r.manifest.Extra[runKey].(string)
		return nil
	}
	h := sha256.New()
	if err := r.hashBeginning(h); err != nil {
		return err
	}
	job := *r.job
	// Paths are no part of it, nor is what changes no number.
	job.Checkpoint, job.Dict, job.Init, job.Data, job.OutputDir = "", "", "", "", ""
	job.MapLocation, job.LocationRules, job.Trace, job.Overwrite, job.SaveMode = "", "", false, false, ""
	text, err := json.Marshal(&job)
	if err != nil {
		return err
	}
	h.Write(text)
	r.job.Run = hex.EncodeToString(h.Sum(nil)[:16])
	return nil
}

// sameRun tells a resume of a checkpoint of Rejoin's that changes nothing.
func (r *resolver) sameRun() bool {
	m, j := r.manifest, r.job
	return m != nil && m.WorldSize == j.WorldSize && m.ModelYAML == j.Model && m.DataPath == j.Data &&
		r.before.Changes(&j.Arguments) == nil && len(j.Skip) == 0 && !j.AllowMissing && j.LRFrom != "args" &&
		!r.request.FreshOptimizer && !r.request.FreshScheduler
}

// hashBeginning hashes what the run begins from: the checkpoint's state with its
// log, a script's dict, initial weights, or nothing but the seed.
func (r *resolver) hashBeginning(h io.Writer) error {
	switch {
	case r.job.Init != "":
		return hashFile(h, r.job.Init)
	case r.job.Dict != "":
		return hashFile(h, r.job.Dict)
	case !r.job.Resuming():
		return nil
	}
	return hashFile(h, filepath.Join(r.job.Checkpoint, hf.StateFile))
}

func hashFile(h io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(h, f)
	return err
}
