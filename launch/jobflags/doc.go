// Package jobflags is torchrun's job flags: their spellings, their environment
// variables, and what they mean for a job on one node.
//
// It promises that a flag is written with dashes or underscores; that the
// environment variable PET_<NAME> stands in for a flag that is not given, and the
// command line wins; and that what cannot be done is refused, naming the
// flag or variable, rather than ignored.
// Source of names and defaults: torch.distributed.run, torch 2.14.
//
// It starts nothing. The flags of torchrun that concern Python (--module,
// --no-python, --run-path, --start-method) are not here.
//
// Where it differs from torchrun:
//
//   - no --rdzv-id, or "none", means a unique id;
//   - MASTER_PORT is a free port unless --master-port is given;
//   - --log-dir alone keeps all output in files and shows it too; --tee and --redirects need it;
//   - --standalone together with --rdzv-endpoint is an error instead of winning silently;
//   - an empty PET_ variable counts as unset, and booleans may be 0, 1, true or false.
package jobflags
