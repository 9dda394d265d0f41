package hf

import (
	"fmt"
	"slices"

	"rejoin/ckpt/hf/pyjson"
	"rejoin/pyobj"
)

// TrainerState is trainer_state.json: where the run stands. It keeps every key
// it was read with, known or not, and writes the Trainer's bytes.
//
// Values are those of pyjson: an int is an int64 and a float a float64, and
// the file tells them apart.
type TrainerState struct {
	fields map[string]any
}

// NewTrainerState is the state of a run that has not begun: the defaults of
// TrainerState in transformers 5.12.
func NewTrainerState() *TrainerState {
	return &TrainerState{fields: map[string]any{
		"best_global_step":      nil,
		"best_metric":           nil,
		"best_model_checkpoint": nil,
		"epoch":                 int64(0),
		"eval_steps":            int64(500),
		"global_step":           int64(0),
		"is_hyper_param_search": false,
		"is_local_process_zero": true,
		"is_world_process_zero": true,
		"log_history":           []any{},
		"logging_steps":         int64(500),
		"max_steps":             int64(0),
		"num_input_tokens_seen": int64(0),
		"num_train_epochs":      int64(0),
		"save_steps":            int64(500),
		"stateful_callbacks":    map[string]any{},
		"total_flos":            int64(0),
		"train_batch_size":      nil,
		"trial_name":            nil,
		"trial_params":          nil,
	}}
}

// DecodeTrainerState reads the text of a trainer_state.json and checks the
// types of the keys that resume uses.
func DecodeTrainerState(data []byte) (*TrainerState, error) {
	v, err := pyjson.Decode(data)
	if err != nil {
		return nil, err
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("expected a dict, found %s", typeName(v))
	}
	s := &TrainerState{fields: fields}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

var (
	intKeys    = []string{"global_step", "max_steps", "num_train_epochs", "train_batch_size", "num_input_tokens_seen", "best_global_step"}
	numberKeys = []string{"epoch", "total_flos", "logging_steps", "eval_steps", "save_steps", "best_metric"}
)

func (s *TrainerState) check() error {
	if _, ok := s.fields["global_step"]; !ok {
		return fmt.Errorf("key %q is missing", "global_step")
	}
	for key, v := range s.fields {
		switch {
		case v == nil && key != "global_step" && key != "log_history":
			continue
		case slices.Contains(intKeys, key):
			if n, ok := v.(int64); !ok {
				return fmt.Errorf("key %q: expected an int, found %s", key, typeName(v))
			} else if n < 0 && key != "max_steps" {
				return fmt.Errorf("key %q: expected 0 or more, found %d", key, n)
			}
		case slices.Contains(numberKeys, key):
			if _, err := pyobj.AsFloat(v); err != nil {
				return fmt.Errorf("key %q: expected a number, found %s", key, typeName(v))
			}
		case key == "best_model_checkpoint":
			if _, ok := v.(string); !ok {
				return fmt.Errorf("key %q: expected a str, found %s", key, typeName(v))
			}
		case key == "log_history":
			if err := checkLog(v); err != nil {
				return fmt.Errorf("key %q: %w", key, err)
			}
		}
	}
	return nil
}

func checkLog(v any) error {
	entries, ok := v.([]any)
	if !ok {
		return fmt.Errorf("expected a list, found %s", typeName(v))
	}
	for i, entry := range entries {
		if _, ok := entry.(map[string]any); !ok {
			return fmt.Errorf("[%d]: expected a dict, found %s", i, typeName(entry))
		}
	}
	return nil
}

// typeName is Python's name for the type of a decoded JSON value.
func typeName(v any) string {
	switch v.(type) {
	case map[string]any:
		return "dict"
	case []any:
		return "list"
	}
	return pyobj.TypeName(v)
}

// Encode is the text of trainer_state.json, as TrainerState.save_to_json of
// transformers 5.12 writes it.
func (s *TrainerState) Encode() ([]byte, error) {
	text, err := pyjson.Encode(s.fields)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", StateFile, err)
	}
	return append(text, '\n'), nil
}

// Clone is a deep copy.
func (s *TrainerState) Clone() *TrainerState {
	return &TrainerState{fields: pyjson.CloneMap(s.fields)}
}

// Get returns the value under key; nil for None and for a key that is not there.
func (s *TrainerState) Get(key string) any { return s.fields[key] }

// Set sets a key; an int is kept as an int64. A known key must have its own
// type, or Encode writes what the Trainer cannot use.
func (s *TrainerState) Set(key string, value any) {
	if n, ok := value.(int); ok {
		value = int64(n)
	}
	s.fields[key] = value
}

// GlobalStep is the number of optimizer steps done.
func (s *TrainerState) GlobalStep() int { return s.integer("global_step") }

// MaxSteps is the number of optimizer steps of the whole run.
func (s *TrainerState) MaxSteps() int { return s.integer("max_steps") }

// NumTrainEpochs is the number of epochs of the whole run, the last one counted whole.
func (s *TrainerState) NumTrainEpochs() int { return s.integer("num_train_epochs") }

// TrainBatchSize is the number of rows in a micro-batch of one rank; 0 if unknown.
func (s *TrainerState) TrainBatchSize() int { return s.integer("train_batch_size") }

// Epoch is the number of epochs done, with the part of the running one.
func (s *TrainerState) Epoch() float64 { return s.number("epoch") }

// TotalFlos is the number of floating-point operations done so far.
func (s *TrainerState) TotalFlos() float64 { return s.number("total_flos") }

// LoggingSteps is the interval between log entries in optimizer steps; below 1,
// a share of MaxSteps; 0 if the state has none. So are SaveSteps and EvalSteps.
func (s *TrainerState) LoggingSteps() float64 { return s.number("logging_steps") }

// SaveSteps is described at [TrainerState.LoggingSteps].
func (s *TrainerState) SaveSteps() float64 { return s.number("save_steps") }

// EvalSteps is described at [TrainerState.LoggingSteps].
func (s *TrainerState) EvalSteps() float64 { return s.number("eval_steps") }

// BestMetric is the best value so far of the metric that models are compared by;
// ok is false before the first one.
func (s *TrainerState) BestMetric() (value float64, ok bool) {
	if s.fields["best_metric"] == nil {
		return 0, false
	}
	return s.number("best_metric"), true
}

// BestGlobalStep is the step at which the best value was measured; 0 for none.
func (s *TrainerState) BestGlobalStep() int { return s.integer("best_global_step") }

// BestModelCheckpoint is the path of the best model's checkpoint, absolute or
// relative to the directory that the run was started in; "" for none.
func (s *TrainerState) BestModelCheckpoint() string {
	path, _ := s.fields["best_model_checkpoint"].(string)
	return path
}

func (s *TrainerState) integer(key string) int {
	n, _ := s.fields[key].(int64)
	return int(n)
}

func (s *TrainerState) number(key string) float64 {
	f, _ := pyobj.AsFloat(s.fields[key])
	return f
}

// LogHistory lists the log's entries, oldest first. The caller must not change them.
func (s *TrainerState) LogHistory() []map[string]any {
	items, _ := s.fields["log_history"].([]any)
	entries := make([]map[string]any, 0, len(items))
	for _, item := range items {
		if entry, ok := item.(map[string]any); ok {
			entries = append(entries, entry)
		}
	}
	return entries
}

// AppendLog adds an entry at the end of the log.
func (s *TrainerState) AppendLog(entry map[string]any) {
	items, _ := s.fields["log_history"].([]any)
	s.fields["log_history"] = append(items, entry)
}
