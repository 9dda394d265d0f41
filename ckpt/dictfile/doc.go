// Package dictfile knows the checkpoints that people's own training scripts
// write: one torch.save of a dict, as PyTorch's tutorial "Saving and loading a
// general checkpoint" has it:
//
//	{"epoch": 1, "model_state_dict": …, "optimizer_state_dict": …, "loss": 2.1, …}
//
// It promises to recognise what such a dict holds by its keys and the shape of
// what is under them, to say what it lacks, and to write the same kind of dict
// back: the same keys in the same order, the weights under the same prefix, and
// whatever it does not know as it was.
//
// It opens no file for reading, chooses no defaults for what a dict lacks and
// knows nothing of training.
package dictfile
