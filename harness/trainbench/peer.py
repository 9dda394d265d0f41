"""A plain DDP training run on gloo, one process for each rank under torchrun's
environment, for `launch bench train`.

usage: peer.py WIDTHS BATCH STEPS    such as peer.py 64,256,10 32 100
"""
import os
import sys
import torch
import torch.distributed as dist
from torch import nn

widths, batch, steps = [int(w) for w in sys.argv[1].split(",")], int(sys.argv[2]), int(sys.argv[3])
dist.init_process_group("gloo")
torch.manual_seed(0)
layers = []
for i, o in zip(widths, widths[1:]):
    layers += [nn.Linear(i, o), nn.ReLU()]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers[:-1]))
try:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
except (RuntimeError, TypeError):  # torch before 2.4 has no fused AdamW on the CPU
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
rows = 16 * batch
x, y = torch.randn(rows, widths[0]), torch.randint(0, widths[-1], (rows,))
for step in range(steps):
    at = step % 16 * batch
    loss = nn.functional.cross_entropy(model(x[at:at + batch]), y[at:at + batch])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
dist.barrier()
if dist.get_rank() == 0:
    print("torch", torch.__version__, flush=True)
dist.destroy_process_group()
os._exit(0)  # torch's threads can abort a process at the interpreter's own exit
