package trainer

import (
	"reflect"

	"rejoin/ckpt/hf"
)

// carryAlong keeps what goes unchanged from checkpoint to checkpoint.
func (r *run) carryAlong(c *hf.Checkpoint) error {
	var err error
	if r.trainingArgs, err = r.carriedArgs(c); err != nil {
		return err
	}
	r.companions, err = c.Companions()
	return err
}

// carriedArgs are the bytes of training_args.bin: the checkpoint's own while they
// say what this run does, or else with what has changed put in.
func (r *run) carriedArgs(c *hf.Checkpoint) ([]byte, error) {
	values, there, err := c.TrainingArgs()
	if err != nil || !there || !r.args.trainerHas() {
		return nil, err
	}
	said := DefaultArguments()
	if err := said.SetKnown(values); err != nil {
		return nil, err
	}
	if said.Changes(r.args) == nil {
		bytes, _, err := c.TrainingArgsBytes()
		return bytes, err
	}
	was, is := said.trainingArgs(r.group.Size()), r.args.trainingArgs(r.group.Size())
	for name, value := range is {
		if !reflect.DeepEqual(value, was[name]) {
			values[name] = value
		}
	}
	return hf.EncodeTrainingArgs(values)
}
