"""Plain DDP under torch's Join on gloo CPU ranks whose epochs have unequal batches.

    python scripts/join_run.py CASE.json

CASE.json: {"data", "init", "out", "rendezvous", "lr", "batches": by rank, epoch and
batch: row numbers}. Trains the linear model of regression.jsonl by SGD in one
process for each rank, which meet over the file RENDEZVOUS; rank 0 writes its
state_dict to OUT.
"""
import json, sys
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(10, 1)

    def forward(self, x):
        return self.fc(x)


def train(rank, case):
    dist.init_process_group("gloo", init_method="file://" + case["rendezvous"], rank=rank, world_size=len(case["batches"]))
    rows = [json.loads(line) for line in open(case["data"])]
    net = Net()
    net.load_state_dict(torch.load(case["init"]))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=case["lr"])
    for epoch in case["batches"][rank]:
        with Join([model]):
            for batch in epoch:
                x, y = (torch.tensor([rows[i][key] for i in batch]) for key in ("x", "y"))
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
    if rank == 0:
        torch.save(net.state_dict(), case["out"])
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    case = json.load(open(sys.argv[1]))
    torch.multiprocessing.spawn(train, (case,), nprocs=len(case["batches"]))
