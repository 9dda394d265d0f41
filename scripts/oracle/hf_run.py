"""Real Hugging Face Trainer runs on N gloo CPU ranks: the oracle behind the fixtures.

Run once per rank under torchrun's environment, as `launch run` gives it, in a
directory with the data files:
    hf_run.py CASE OUT [RESUME_CHECKPOINT]
Writes OUT/checkpoint-N as the Trainer does, and OUT/trace-rankR.json: what each
rank saw (sample ids per micro-batch) and, on rank 0, the Trainer's log history.
PLAIN_CPU=1 maps an indexed CPU device to plain "cpu" in torch.load (the fix).
"""
import json, os, sys
import torch
import torch.nn as nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
case_name, out = sys.argv[1], sys.argv[2]
resume = sys.argv[3] if len(sys.argv) > 3 else None
CASES = json.load(open(os.path.join(HERE, "cases.json")))
case = CASES[case_name]

if os.environ.get("PLAIN_CPU"):
    _load = torch.load
    def load(*a, **k):
        loc = k.get("map_location")
        if loc is not None and not callable(loc) and not isinstance(loc, dict) and str(loc).startswith("cpu"):
            k["map_location"] = "cpu"
        return _load(*a, **k)
    torch.load = load


class Rows(Dataset):
    """Rows of the case's data file, in file order; each keeps its index for the trace."""
    def __init__(self, path):
        self.rows = [json.loads(l) for l in open(path)]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, i):
        return dict(self.rows[i], row=i)


class SimpleNet(nn.Module):
    def __init__(self, n_in=10, n_out=1):
        super().__init__()
        self.fc = nn.Linear(n_in, n_out)
    def forward(self, x=None, y=None):
        pred = self.fc(x)
        return {"loss": nn.functional.mse_loss(pred, y), "logits": pred}


class ModelArch(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        layers = []
        for a, b in zip(sizes, sizes[1:]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.backbone = nn.Sequential(*layers[:-1])
    def forward(self, x=None, label=None):
        logits = self.backbone(x)
        return {"loss": nn.functional.cross_entropy(logits, label), "logits": logits}


def build(m):
    kind = m["kind"]
    if kind == "simple":
        return SimpleNet(m["n_in"], m["n_out"])
    if kind == "mlp":
        return ModelArch(m["sizes"])
    cfg = getattr(transformers, m["config_class"])(**m["config"])
    return getattr(transformers, m["model_class"])(cfg)


set_seed(case["model_seed"])
model = build(case["model"])
seen = []

def collate(rows):
    seen.append([r["row"] for r in rows])
    batch = {}
    for key in rows[0]:
        if key == "row":
            continue
        v = [r[key] for r in rows]
        isfloat = isinstance(v[0], float) or (isinstance(v[0], list) and isinstance(v[0][0], float))
        batch[key] = torch.tensor(v, dtype=torch.float32 if isfloat else torch.long)
    return batch

args = TrainingArguments(
    output_dir=out, use_cpu=True, report_to=[], logging_steps=case.get("logging_steps", 1), disable_tqdm=True,
    ddp_backend="gloo" if "RANK" in os.environ else None,
    remove_unused_columns=False, label_names=case.get("label_names"), **case["args"])
data = Rows(case["data"])
trainer = Trainer(model=model, args=args, train_dataset=data, data_collator=collate)
if resume is None and args.process_index == 0:
    os.makedirs(out, exist_ok=True)
    torch.save(model.state_dict(), os.path.join(out, "initial_state_dict.pt"))
trainer.train(resume_from_checkpoint=resume)
trace = {"rank": args.process_index, "world_size": args.world_size, "device": str(args.device), "micro_batches": seen}
if args.process_index == 0:
    trace["log_history"] = trainer.state.log_history
    trace["versions"] = {"torch": torch.__version__, "transformers": transformers.__version__}
json.dump(trace, open(os.path.join(out, f"trace-rank{args.process_index}.json"), "w"), indent=1)
print("rank", args.process_index, "resume: OK" if resume else "training from scratch: OK")
if torch.distributed.is_initialized():
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # torch's threads can abort a process at the interpreter's own exit
