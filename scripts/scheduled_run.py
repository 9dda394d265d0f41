"""Training scripts as people write them, with torch's schedulers: one process.

    python scripts/scheduled_run.py CASES.json

CASES.json: [{"data", "eval_data", "optimizer", "optimizer_args", "scheduler",
"scheduler_args", "by", "counts", "late", "epochs", "save_after", "out"}]. The scheduler is
stepped by "epoch" or "update"; under "epoch" the dict counts the epoch just "done",
from 0, or the "number" of epochs; "late" saves before the scheduler's step. Writes
OUT, the dict after "save_after" epochs, and prints per case the learning rate of every
update after it and the weights at the end, in JSON.
"""
import json, sys
import torch
import torch.nn as nn
from torch.utils.data.distributed import DistributedSampler


def rows(path):
    lines = [json.loads(line) for line in open(path)]
    return torch.tensor([r["x"] for r in lines], dtype=torch.float32), torch.tensor([r["label"] for r in lines])


def run(case):
    torch.manual_seed(3)
    model = nn.Sequential()
    model.add_module("backbone", nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10)))
    x, y = rows(case["data"])
    ex, ey = rows(case["eval_data"])
    optimizer = getattr(torch.optim, case["optimizer"])(model.parameters(), **case["optimizer_args"])
    scheduler = getattr(torch.optim.lr_scheduler, case["scheduler"])(optimizer, **case["scheduler_args"])
    sampler = DistributedSampler(x, num_replicas=1, rank=0, shuffle=True, seed=0)

    def save(epoch):
        if epoch + 1 == case["save_after"]:
            torch.save({
                "epoch": epoch if case["counts"] == "done" else epoch + 1, "state_dict": model.state_dict(),
                "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, case["out"])

    rates = []
    for epoch in range(case["epochs"]):
        sampler.set_epoch(epoch)
        order = list(sampler)
        for i in range(0, len(order), 20):
            batch = order[i:i + 20]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            if epoch >= case["save_after"]:
                rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if case["by"] == "update":
                scheduler.step()
        if case["late"]:
            save(epoch)
        if case["scheduler"] == "ReduceLROnPlateau":
            with torch.no_grad():
                scheduler.step(nn.functional.cross_entropy(model(ex), ey))
        elif case["by"] == "epoch":
            scheduler.step()
        if not case["late"]:
            save(epoch)
    return {"rates": rates, "weights": {k: v.flatten().tolist() for k, v in model.state_dict().items()}}


torch.set_num_threads(1)
json.dump([run(case) for case in json.load(open(sys.argv[1]))], sys.stdout)
