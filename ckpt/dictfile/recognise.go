package dictfile

import (
	"fmt"
	"slices"
	"strings"

	"rejoin/ckpt"
	"rejoin/ckpt/names"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// The keys under which scripts keep each part, in the order in which they are
// tried; those of the weights are [ckpt.StateDict]'s.
var (
	optimizerKeys = []string{"optimizer_state_dict", "optimizer", "optim_state_dict", "optimizer_state", "optim", "opt"}
	schedulerKeys = []string{"scheduler_state_dict", "lr_scheduler_state_dict", "scheduler", "lr_scheduler", "scheduler_state"}
	lossKeys      = []string{"loss", "train_loss"}
)

const epochKey = "epoch"

// Contents is what a script's dict holds. Its tensors are the file's.
type Contents struct {
	Weights *tensor.StateDict // under the file's names
	// Prefix is what wrappers put before every name, such as "module."; "" for none.
	Prefix string
	// Optimizer and Scheduler are state_dicts; nil if the dict has none.
	Optimizer, Scheduler *pyobj.Dict
	// Epoch is what stands under "epoch", if HasEpoch. Most scripts count the
	// epoch just done from 0; some write the number of epochs done.
	Epoch    int
	HasEpoch bool

	dict *pyobj.Dict
	// The keys under which the parts stand; "" for none.
	weightsKey, optimizerKey, schedulerKey, lossKey string
}

// NotRecognisedError says why an object is no training script's dict.
type NotRecognisedError struct{ Reason string }

func (e *NotRecognisedError) Error() string {
	return "this is not a checkpoint that a run can be resumed from: " + e.Reason
}

// Recognise finds the parts of a training script's checkpoint in an object that
// torch.save wrote. A state_dict by itself, without anything beside it, is
// refused with a [*NotRecognisedError], as is what holds no weights.
func Recognise(object any) (*Contents, error) {
	dict, ok := object.(*pyobj.Dict)
	if !ok {
		return nil, &NotRecognisedError{fmt.Sprintf("the file holds a %s, not a dict", pyobj.TypeName(object))}
	}
	weights, key, err := ckpt.StateDict(dict)
	if err != nil {
		return nil, &NotRecognisedError{err.Error()}
	}
	if key == "" {
		return nil, &NotRecognisedError{fmt.Sprintf("it holds weights only (%d tensors); `launch train --init FILE` begins a new run with them", weights.Len())}
	}
	c := &Contents{Weights: weights, dict: dict, weightsKey: key, Prefix: strings.Join(names.CommonWrappers(weights.Names()), "")}
	c.optimizerKey, c.Optimizer = find(dict, optimizerKeys, "state", "param_groups")
	c.schedulerKey, c.Scheduler = find(dict, schedulerKeys, "last_epoch")
	if v, ok := dict.Get(epochKey); ok {
		n, err := pyobj.AsInt(v)
		if err != nil || n < 0 || n > 1<<31 {
			return nil, &NotRecognisedError{fmt.Sprintf("key %q: expected a number of an epoch, found %s %v", epochKey, pyobj.TypeName(v), v)}
		}
		c.Epoch, c.HasEpoch = int(n), true
	}
	for _, key := range lossKeys {
		if v, ok := dict.Get(key); ok && c.lossKey == "" && isNumber(v) {
			c.lossKey = key
		}
	}
	return c, nil
}

// find returns the first of keys under which there is a dict that has parts.
func find(dict *pyobj.Dict, keys []string, parts ...string) (string, *pyobj.Dict) {
	for _, key := range keys {
		v, _ := dict.Get(key)
		d, ok := v.(*pyobj.Dict)
		if !ok {
			continue
		}
		if !slices.ContainsFunc(parts, func(part string) bool { _, ok := d.Get(part); return !ok }) {
			return key, d
		}
	}
	return "", nil
}

func isNumber(v any) bool {
	_, err := pyobj.AsFloat(v)
	return err == nil
}

// Holds says what was recognised, in words.
func (c *Contents) Holds() string {
	parts := []string{fmt.Sprintf("weights (%d tensors under %q", c.Weights.Len(), c.weightsKey)}
	if c.Prefix != "" {
		parts[0] += fmt.Sprintf(", named with the prefix %q", c.Prefix)
	}
	parts[0] += ")"
	if c.Optimizer != nil {
		parts = append(parts, fmt.Sprintf("an optimizer's state (%q)", c.optimizerKey))
	}
	if c.Scheduler != nil {
		parts = append(parts, fmt.Sprintf("a schedule's state (%q)", c.schedulerKey))
	}
	if c.HasEpoch {
		parts = append(parts, fmt.Sprintf("the epoch (%d)", c.Epoch))
	}
	return strings.Join(parts, ", ")
}
