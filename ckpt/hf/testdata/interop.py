"""Opens a checkpoint directory as a Python program would and prints what it holds as JSON."""
import json, os, random, sys

import numpy as np
import torch

if not hasattr(np, "_core"):  # numpy 1 has not the name under which numpy 2 pickles
    import numpy.core.multiarray
    sys.modules["numpy._core"] = np.core
    sys.modules["numpy._core.multiarray"] = np.core.multiarray

directory = sys.argv[1]
out = {"torch": torch.__version__}


def load(name):
    path = os.path.join(directory, name)
    if torch.__version__.startswith("1."):
        return torch.load(path)
    return torch.load(path, weights_only=False)


optimizer = load("optimizer.pt")
out["lr"] = [g["lr"] for g in optimizer["param_groups"]]
out["exp_avg"] = [float(s["exp_avg"].double().sum()) for s in optimizer["state"].values()]
out["step"] = [float(s["step"]) for s in optimizer["state"].values()]
out["last_epoch"] = load("scheduler.pt")["last_epoch"]

out["draws"] = []
for name in sorted(n for n in os.listdir(directory) if n.startswith("rng_state")):
    state = load(name)
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.random.set_rng_state(state["cpu"])
    out["draws"].append([random.random(), float(np.random.rand()), float(torch.rand(1))])

try:
    from safetensors.torch import load_file
    weights = load_file(os.path.join(directory, "model.safetensors"))
    out["weights"] = {k: float(v.double().sum()) for k, v in weights.items()}
except ImportError:
    pass

try:
    from transformers.trainer_callback import TrainerState
except ImportError:
    TrainerState = None
if TrainerState is not None:
    path = os.path.join(directory, "trainer_state.json")
    state = TrainerState.load_from_json(path)
    out["global_step"] = state.global_step
    out["losses"] = [e["loss"] for e in state.log_history]
    text = open(path, "rb").read()
    state.save_to_json(path + ".again")
    out["same_state"] = open(path + ".again", "rb").read() == text
    if os.path.exists(os.path.join(directory, "training_args.bin")):
        args = load("training_args.bin")
        out["args"] = {
            "class": type(args).__name__,
            "learning_rate": args.learning_rate,
            "lr_scheduler_type": repr(args.lr_scheduler_type),
            "optim": repr(args.optim),
            "even_batches": args.accelerator_config.even_batches,
            "num_processes": args.distributed_state.num_processes,
            "world_size": args.world_size,
            "device": str(args._setup_devices),
            "train_batch_size": args.train_batch_size,
            "eval_strategy": args.eval_strategy.value,
        }
print(json.dumps(out))
