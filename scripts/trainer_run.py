"""One run of the real Hugging Face Trainer on gloo CPU ranks.

    python -m torch.distributed.run --nproc-per-node N scripts/trainer_run.py CASE.json

CASE.json: {"layers": [64, 16, 10] or {"fc": [10, 1]}, "loss", "input", "target",
"data", "eval_data", "init", "out", "resume", "early_stopping": {patience, threshold},
"args": {TrainingArguments}}. Writes OUT/checkpoint-N as the Trainer does and, by
rank 0, OUT/initial_state_dict.pt, OUT/final_state_dict.pt (after the best model
is loaded, if it is) and OUT/history.json.

An indexed CPU device is mapped to plain "cpu" in torch.load: without that, no
released Trainer resumes on two CPU ranks.
"""
import json, os, sys
import torch
import torch.nn as nn
from torch.utils.data import Dataset
from transformers import EarlyStoppingCallback, Trainer, TrainingArguments, set_seed

case = json.load(open(sys.argv[1]))
load = torch.load


def load_on_plain_cpu(*args, **kwargs):
    where = kwargs.get("map_location")
    if isinstance(where, (str, torch.device)) and str(where).startswith("cpu"):
        kwargs["map_location"] = "cpu"
    return load(*args, **kwargs)


torch.load = load_on_plain_cpu


class Rows(Dataset):
    def __init__(self, path):
        self.rows = [json.loads(line) for line in open(path)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        if isinstance(case["layers"], dict):
            self.name = next(iter(case["layers"]))
            setattr(self, self.name, nn.Linear(*case["layers"][self.name]))
        else:
            self.name, layers = "backbone", []
            for a, b in zip(case["layers"], case["layers"][1:]):
                layers += [nn.Linear(a, b), nn.ReLU()]
            self.backbone = nn.Sequential(*layers[:-1])

    def forward(self, x=None, target=None):
        out = getattr(self, self.name)(x)
        loss = nn.functional.cross_entropy if case["loss"] == "cross_entropy" else nn.functional.mse_loss
        return {"loss": loss(out, target), "logits": out}


def collate(rows):
    x = torch.tensor([r[case["input"]] for r in rows], dtype=torch.float32)
    dtype = torch.long if case["loss"] == "cross_entropy" else torch.float32
    return {"x": x, "target": torch.tensor([r[case["target"]] for r in rows], dtype=dtype)}


set_seed(case["args"].get("seed", 42))
model = Net()
if case.get("init"):
    model.load_state_dict(load(case["init"]))
args = TrainingArguments(
    output_dir=case["out"], use_cpu=True, report_to=[], disable_tqdm=True, remove_unused_columns=False,
    label_names=["target"], ddp_backend="gloo" if "RANK" in os.environ else None, **case["args"])
callbacks = []
if case.get("early_stopping"):
    callbacks.append(EarlyStoppingCallback(**case["early_stopping"]))
trainer = Trainer(
    model=model, args=args, train_dataset=Rows(case["data"]), data_collator=collate, callbacks=callbacks,
    eval_dataset=Rows(case["eval_data"]) if case.get("eval_data") else None)
if args.process_index == 0 and not case.get("resume"):
    os.makedirs(case["out"], exist_ok=True)
    torch.save(model.state_dict(), os.path.join(case["out"], "initial_state_dict.pt"))
trainer.train(resume_from_checkpoint=case.get("resume"))
if args.process_index == 0:
    torch.save(model.state_dict(), os.path.join(case["out"], "final_state_dict.pt"))
    with open(os.path.join(case["out"], "history.json"), "w") as f:
        json.dump(trainer.state.log_history, f, indent=1)
if torch.distributed.is_initialized():
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # torch's threads can abort a process at the interpreter's own exit
