package trainer

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
)

// flags applies what the person asked for, which wins over the checkpoint.
func (r *resolver) flags() error {
	args := &r.job.Arguments
	var named []string
	if path := r.request.Config; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("--config: %w", err)
		}
		if err := args.SetYAML(text); err != nil {
			return requestError("--config %s: %w", path, err)
		}
		named = NamesInYAML(text)
	}
	for _, assignment := range r.request.Set {
		if err := args.SetText(assignment); err != nil {
			return requestError("--set %s: %w", assignment, err)
		}
		name, _, _ := strings.Cut(assignment, "=")
		named = append(named, strings.ReplaceAll(name, "-", "_"))
	}
	for _, name := range named {
		r.given[name] = true
	}
	if unused := slices.DeleteFunc(named, func(name string) bool { return !inert(name) }); len(unused) > 0 {
		r.say("of the Trainer's arguments these have no effect here: %s", strings.Join(unused, ", "))
	}
	if r.request.OnNaN != "" {
		args.OnNaN = r.request.OnNaN
	}
	if r.request.UnevenRanks != "" {
		if err := args.setUneven(r.request.UnevenRanks); err != nil {
			return &RequestError{err}
		}
	}
	if err := r.keepSchedule(); err != nil {
		return err
	}
	args.complete()
	if err := args.Validate(); err != nil {
		return &RequestError{err}
	}
	r.sayChanges()
	return nil
}

// sayChanges says what the person changes in the run to resume.
func (r *resolver) sayChanges() {
	args := &r.job.Arguments
	if r.job.Checkpoint == "" { // a training script's dict does not hold arguments
		return
	}
	r.keepOptimizer()
	changes := r.before.Changes(args)
	for _, change := range changes {
		r.say("changed from the checkpoint's run: %s", change)
	}
	if len(changes) == 0 && r.job.Previous.WorldSize == r.job.WorldSize {
		r.job.ExpectedSteps = r.expectedSteps
	}
	if r.before.LearningRate != args.LearningRate && r.job.LRFrom != "args" {
		r.warn("learning_rate has no effect on a resumed run: the optimizer's saved learning rate is used; --lr-from args uses the new one")
	}
}

// keepOptimizer sets back what a resume takes from optimizer.pt, and says so.
func (r *resolver) keepOptimizer() {
	args := &r.job.Arguments
	if r.job.FreshOptimizer {
		return
	}
	for _, name := range []string{"weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon"} {
		i := argumentFields[name]
		was, is := reflect.ValueOf(&r.before).Elem().Field(i), reflect.ValueOf(args).Elem().Field(i)
		if was.Float() != is.Float() {
			r.warn("%s has no effect on a resumed run: optimizer.pt holds it (%v); --fresh-optimizer begins anew with %v", name, was.Float(), is.Float())
			is.Set(was)
		}
	}
}

// samplerWas is the sampler of the checkpoint's run: the Trainer's unless its
// manifest names another.
func (r *resolver) samplerWas() string {
	if r.manifest != nil && r.manifest.Sampler != "" {
		return r.manifest.Sampler
	}
	return SeedableRandom
}

// sampler decides the order in which rows are drawn.
func (r *resolver) sampler() error {
	was := r.samplerWas()
	r.job.Sampler = was
	if r.request.Sampler != "" {
		r.job.Sampler = r.request.Sampler
	}
	if r.job.Checkpoint != "" && r.job.Sampler != was {
		r.warn("sampler %s → %s: rows may be seen twice or not at all in the epoch that is resumed", was, r.job.Sampler)
	}
	if err := checkSampler(r.job.Sampler, &r.job.Arguments); err != nil {
		return &RequestError{err}
	}
	return nil
}
