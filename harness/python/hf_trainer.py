"""A run of the real Hugging Face Trainer, for the harness. One process for each rank, under torchrun's environment.

usage: hf_trainer.py --output DIR [--checkpoint DIR] [--ask trainer|device|cpu] [--max-steps N]

Trains a linear model on regression.jsonl as testdata's regression-w2 was trained,
and writes DIR/checkpoint-N and DIR/trace-rankR.json: the rows of each micro-batch.

--ask says which location optimizer.pt is loaded to: `trainer` leaves it to the
Trainer; `device` is the rank's own (cpu:0 on each of several CPU ranks), which
transformers up to 5.17 asks for; `cpu` is what later ones ask for.
"""
import argparse
import json
import os
import sys
import traceback

import torch
from torch import nn
import transformers
from transformers import Trainer, TrainingArguments, set_seed

p = argparse.ArgumentParser()
p.add_argument("--output", required=True)
p.add_argument("--checkpoint")
p.add_argument("--ask", choices=["trainer", "device", "cpu"], default="trainer")
p.add_argument("--max-steps", type=int, default=6)
cmd = p.parse_args()

with open("regression.jsonl") as f:
    rows = [dict(json.loads(line), row=i) for i, line in enumerate(f)]


class SimpleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(10, 1)

    def forward(self, x=None, y=None):
        pred = self.fc(x)
        return {"loss": nn.functional.mse_loss(pred, y), "logits": pred}


seen = []


def collate(batch):
    seen.append([r["row"] for r in batch])
    return {key: torch.tensor([r[key] for r in batch]) for key in ("x", "y")}


torch_load = torch.load


def load(file, *args, map_location=None, **kwargs):
    if os.path.basename(str(file)) == "optimizer.pt":
        asked = map_location
        map_location = {"trainer": asked, "device": str(training.device), "cpu": "cpu"}[cmd.ask]
        print(f"transformers {transformers.__version__} loads optimizer.pt to {asked}; this run asks for {map_location}", flush=True)
    return torch_load(file, *args, map_location=map_location, **kwargs)


def leave(code):
    """Ends the ranks together, and not through the interpreter's exit, in which torch's threads can abort a process."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()  # every rank has its say before the first one's end ends the others
        torch.distributed.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


torch.load = load
set_seed(0)
model = SimpleNet()
training = TrainingArguments(
    output_dir=cmd.output, use_cpu=True, report_to=[], disable_tqdm=True, remove_unused_columns=False,
    ddp_backend="gloo" if int(os.environ.get("WORLD_SIZE", "1")) > 1 else None,
    per_device_train_batch_size=4, max_steps=cmd.max_steps, save_steps=2, logging_steps=1, learning_rate=0.01)
trainer = Trainer(model=model, args=training, train_dataset=rows, data_collator=collate)
try:
    trainer.train(resume_from_checkpoint=cmd.checkpoint)
except RuntimeError:
    traceback.print_exc()
    leave(1)
first = int(cmd.checkpoint.rstrip("/").rsplit("-", 1)[1]) if cmd.checkpoint else 0
with open(os.path.join(cmd.output, f"trace-rank{training.process_index}.json"), "w") as f:
    json.dump({"rank": training.process_index, "world_size": training.world_size, "first_step": first, "micro_batches": seen}, f)
print("resume: OK" if cmd.checkpoint else "training from scratch: OK", flush=True)
leave(0)
