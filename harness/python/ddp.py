"""A plain PyTorch DistributedDataParallel run, for the harness. One process for each rank, under torchrun's environment.

usage: ddp.py --output DIR [--steps N] [--save-at N] [--checkpoint FILE] [--map-location cpu|device]

Trains a small network on regression.jsonl with Adam over gloo. Rank 0 writes
DIR/state.pt after update --save-at and DIR/final.pt at the end; every rank
writes DIR/trace-rankR.json. --checkpoint goes on from a state.pt, loaded to the
plain CPU or, with `device`, to cpu:RANK, which torch knows nothing of.
"""
import argparse
import json
import os
import sys
import traceback

import torch
from torch import nn
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

p = argparse.ArgumentParser()
p.add_argument("--output", required=True)
p.add_argument("--steps", type=int, default=8)
p.add_argument("--save-at", type=int)
p.add_argument("--checkpoint")
p.add_argument("--map-location", choices=["cpu", "device"], default="cpu")
cmd = p.parse_args()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
with open("regression.jsonl") as f:
    data = [json.loads(line) for line in f]
x, y = torch.tensor([r["x"] for r in data]), torch.tensor([r["y"] for r in data])

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
done = 0
if cmd.checkpoint:
    location = f"cpu:{rank}" if cmd.map_location == "device" else "cpu"
    try:
        state = torch.load(cmd.checkpoint, map_location=location)
    except RuntimeError:
        traceback.print_exc()
        dist.barrier()  # so that every rank has its say before the first one's end ends the others
        sys.exit(1)
    net.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    done = state["step"]
model = DistributedDataParallel(net)


def save(name, step):
    if rank == 0:
        torch.save({"step": step, "model": net.state_dict(), "optimizer": optimizer.state_dict()}, os.path.join(cmd.output, name))


os.makedirs(cmd.output, exist_ok=True)
seen = []
for step in range(done, cmd.steps):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(step))
    rows = order[rank * 4:rank * 4 + 4] if world > 1 else order[:8]
    seen.append(rows.tolist())
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    print(f"step {step + 1}/{cmd.steps} loss {loss.item():.6g}", flush=True)
    if step + 1 == cmd.save_at:
        save("state.pt", step + 1)
save("final.pt", cmd.steps)
with open(os.path.join(cmd.output, f"trace-rank{rank}.json"), "w") as f:
    json.dump({"rank": rank, "world_size": world, "first_step": done, "micro_batches": seen}, f)
dist.barrier()
dist.destroy_process_group()
print("resume: OK" if cmd.checkpoint else "training from scratch: OK", flush=True)
os._exit(0)  # torch's threads can abort a process at the interpreter's own exit
