package trainer

import (
	"fmt"
	"os"
	"path/filepath"

	"rejoin/ckpt/hf"
	"rejoin/model"
)

// model finds the model's description.
func (r *resolver) model() error {
	path := r.request.Model
	switch {
	case path != "":
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("--model: %w", err)
		}
		r.job.Model = string(text)
	case r.manifest != nil && r.manifest.ModelYAML != "":
		r.job.Model, path = r.manifest.ModelYAML, filepath.Join(r.job.Checkpoint, hf.ManifestFile)
	case r.opened != nil && r.opened.Has(hf.ConfigFile):
		return fmt.Errorf("%s describes an architecture that Rejoin does not have; describe the model with --model FILE.yaml", filepath.Join(r.job.Checkpoint, hf.ConfigFile))
	case r.opened != nil:
		return requestError("%s does not say what model it is of; describe it with --model FILE.yaml", r.job.Checkpoint)
	default:
		return requestError("there is no model; describe it with --model FILE.yaml")
	}
	if _, err := model.ParseSpec([]byte(r.job.Model)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// data finds the training data. Its path is kept absolute, so that the manifest
// leads back to it from any directory.
func (r *resolver) data() error {
	path := r.request.Data
	if path == "" && r.manifest != nil {
		path = r.manifest.DataPath
	}
	if path == "" {
		if r.job.Resuming() {
			return requestError("%s does not say what data it was trained on; name it with --data FILE", r.job.Checkpoint)
		}
		return requestError("there is no data to train on; name it with --data FILE")
	}
	if _, err := os.Stat(path); err != nil {
		next := "check --data"
		if r.request.Data == "" {
			next = "the checkpoint's manifest names this file: if it moved, name it with --data FILE"
		}
		return fmt.Errorf("training data: %w; %s", err, next)
	}
	var err error
	r.job.Data, err = filepath.Abs(path)
	return err
}

// outputDir decides where checkpoints go, and refuses before training what
// could not be written, or would come out different under a name that is taken.
func (r *resolver) outputDir() error {
	if r.job.OutputDir == "" {
		r.job.OutputDir = defaultOutputDir
		if r.job.Resuming() {
			r.job.OutputDir = parent(r.job.Checkpoint + r.job.Dict) // one of them is ""
		}
	}
	if err := checkWritable(r.job.OutputDir); err != nil {
		return err
	}
	if err := r.identity(); err != nil {
		return err
	}
	return r.laterCheckpoints()
}

// parent is the directory that holds dir, also when dir is given as "." or "..".
func parent(dir string) string {
	if base := filepath.Base(dir); base == "." || base == ".." {
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
	}
	return filepath.Dir(dir)
}
