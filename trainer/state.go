package trainer

import (
	"errors"
	"maps"

	"rejoin/ckpt/hf"
)

// setReferences sets what the Trainer computes anew when a run begins or goes on
// (TrainerState.init_training_references and compute_steps, transformers 5.12).
func (r *run) setReferences() {
	s := r.state
	s.Set("max_steps", r.plan.MaxSteps)
	s.Set("num_train_epochs", r.plan.Epochs)
	s.Set("train_batch_size", r.args.PerDeviceTrainBatchSize)
	s.Set("logging_steps", r.plan.LoggingSteps)
	s.Set("save_steps", r.plan.SaveSteps)
	if r.plan.EvalSteps > 0 {
		s.Set("eval_steps", r.plan.EvalSteps)
	}
	s.Set("is_local_process_zero", true)
	s.Set("is_world_process_zero", true)
	s.Set("trial_name", nil)
	s.Set("trial_params", nil)
	s.Set("total_flos", s.TotalFlos()) // a float, 0.0 for a plain module
}

// callbackStates are the run's stateful callbacks, with the TrainerControl as it
// stands while a checkpoint is saved.
func (r *run) callbackStates(last bool) map[string]any {
	found, _ := r.state.Get("stateful_callbacks").(map[string]any)
	states := maps.Clone(found)
	if states == nil {
		states = map[string]any{}
	}
	if r.early != nil {
		states[earlyStoppingName] = r.early.state()
	}
	states["TrainerControl"] = map[string]any{
		"args": map[string]any{
			"should_epoch_stop": false, "should_evaluate": false, "should_log": r.control.log,
			"should_save": true, "should_training_stop": last,
		},
		"attributes": map[string]any{},
	}
	return states
}

// Keys of manifest.json besides those that every checkpoint has.
const (
	evalDataKey = "eval_data" // path and SHA-256 of the evaluation data
	epochEndKey = "epoch_end" // what the log needs where an epoch's end is still to be settled
)

// addEvaluation adds what the manifest holds of evaluations.
func (r *run) addEvaluation(extra map[string]any) {
	if r.eval.table != nil {
		extra[evalDataKey] = map[string]any{"path": r.job.EvalData, "sha256": r.eval.table.Digest()}
	}
	if r.owesEpochEnd() {
		extra[epochEndKey] = map[string]any{"grad_norm": r.measured.gradNorm, "learning_rate": r.measured.learningRate}
	}
}

// evalDataOf is the evaluation data that a manifest names; "" for none.
func evalDataOf(m *hf.Manifest) (path, digest string) {
	fields, _ := m.Extra[evalDataKey].(map[string]any)
	path, _ = fields["path"].(string)
	digest, _ = fields["sha256"].(string)
	return path, digest
}

// restoreEpochEnd finds whether the checkpoint was saved at an epoch's end before
// that was logged and evaluated.
func (r *run) restoreEpochEnd(m *hf.Manifest) {
	fields, ok := m.Extra[epochEndKey].(map[string]any)
	if !ok {
		return
	}
	r.owesEpoch = true
	r.measured.gradNorm, _ = fields["grad_norm"].(float64)
	r.measured.learningRate, _ = fields["learning_rate"].(float64)
}

// pendingKey is manifest.json's key for the losses that no log entry holds yet.
const pendingKey = "pending_loss"

// paramGroupsKey is manifest.json's key for parameters that are grouped otherwise
// than the Trainer's; see Job.ParamGroups.
const paramGroupsKey = "param_groups"

// pendingLoss is what a save finds in the ranks' loss meters. The Trainer does
// not save it, so that its log after a resume leaves those steps out; ours does not.
type pendingLoss struct {
	sums       []float32 // by rank
	lastLogged int       // global step
}

func (p pendingLoss) encode() map[string]any {
	sums := make([]any, len(p.sums))
	for rank, s := range p.sums {
		sums[rank] = float64(s)
	}
	return map[string]any{"sums": sums, "last_logged": int64(p.lastLogged)}
}

var errPending = errors.New(`key "pending_loss": expected sums by rank and the step last_logged`)

// decodePending reads the manifest's pending losses; a manifest without any is
// of a run that had none.
func decodePending(m *hf.Manifest) (pendingLoss, error) {
	value, ok := m.Extra[pendingKey]
	if !ok {
		return pendingLoss{lastLogged: m.Step}, nil
	}
	fields, _ := value.(map[string]any)
	last, ok := fields["last_logged"].(int64)
	sums, ok2 := fields["sums"].([]any)
	if !ok || !ok2 || last < 0 || int(last) > m.Step || len(sums) == 0 {
		return pendingLoss{}, errPending
	}
	p := pendingLoss{lastLogged: int(last)}
	for _, s := range sums {
		f, ok := s.(float64)
		if !ok {
			return pendingLoss{}, errPending
		}
		p.sums = append(p.sums, float32(f))
	}
	return p, nil
}

// of is the loss meter of one rank. In another world size every rank takes the
// mean, which keeps the mean over ranks.
func (p pendingLoss) of(rank, worldSize, step int) lossMeter {
	m := lossMeter{lastLogged: min(p.lastLogged, step)}
	switch {
	case len(p.sums) == worldSize:
		m.sum = p.sums[rank]
	case len(p.sums) > 0:
		m.sum = meanFloat32(p.sums)
	}
	return m
}
