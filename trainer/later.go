package trainer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"rejoin/ckpt/hf"
)

// LaterCheckpointsError refuses to train over checkpoints of another run.
type LaterCheckpointsError struct {
	Path string   // the first of them
	Why  []string // how it differs from what this run would write there
}

func (e *LaterCheckpointsError) Error() string {
	return fmt.Sprintf("%s is there already and this run would write it differently (%s); "+
		"write elsewhere with --output-dir, or allow it to be replaced with --overwrite", e.Path, strings.Join(e.Why, "; "))
}

// laterCheckpoints refuses when the output directory holds checkpoints, later
// than the one to resume, that this run would not reproduce. Those it would
// reproduce are left: each is compared when it is saved, and kept if identical.
func (r *resolver) laterCheckpoints() error {
	entries, err := os.ReadDir(r.job.OutputDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--output-dir: %w", err)
	}
	from := 0
	if r.opened != nil {
		from = r.opened.Step()
	}
	var replaced []string
	for _, entry := range entries {
		step, ok := hf.StepOfName(entry.Name())
		if !ok || step <= from {
			continue
		}
		path := filepath.Join(r.job.OutputDir, entry.Name())
		why := r.differences(path)
		switch {
		case why == nil:
		case r.job.Overwrite:
			replaced = append(replaced, entry.Name())
		default:
			return &LaterCheckpointsError{Path: path, Why: why}
		}
	}
	if replaced != nil {
		r.warn("%s of another run is in %s; each stays until this run reaches its step", strings.Join(replaced, ", "), r.job.OutputDir)
	}
	return nil
}

// differences says how the checkpoint at path was made otherwise than this run
// would make it; nil if nothing that a manifest tells stands against its being equal.
func (r *resolver) differences(path string) []string {
	other, err := readManifest(path)
	switch {
	case err != nil:
		return []string{err.Error()}
	case other == nil:
		return []string{"another program wrote it"}
	}
	theirs := DefaultArguments()
	if err := theirs.SetKnown(other.Arguments); err != nil {
		return []string{err.Error()}
	}
	why := theirs.Changes(&r.job.Arguments)
	if other.WorldSize != r.job.WorldSize {
		why = append(why, fmt.Sprintf("world size: %d → %d", other.WorldSize, r.job.WorldSize))
	}
	if other.Sampler != r.job.Sampler {
		why = append(why, fmt.Sprintf("sampler: %s → %s", other.Sampler, r.job.Sampler))
	}
	if other.ModelYAML != r.job.Model {
		why = append(why, "another model.yaml")
	}
	if !reflect.DeepEqual(other.DataPath, r.job.Data) {
		why = append(why, fmt.Sprintf("data: %s → %s", other.DataPath, r.job.Data))
	}
	if path, _ := evalDataOf(other); path != r.job.EvalData {
		why = append(why, fmt.Sprintf("evaluation data: %s → %s", python(path), python(r.job.EvalData)))
	}
	if run, _ := other.Extra[runKey].(string); len(why) == 0 && run != r.job.Run {
		why = append(why, "it is of another run")
	}
	return why
}

func readManifest(dir string) (*hf.Manifest, error) {
	c, err := hf.Open(dir, hf.Options{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Manifest()
}
